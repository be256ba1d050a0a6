from .embedding import embed_texts as embed_texts
from .erased import ErasedEmbeddings as ErasedEmbeddings
from .hooks import Hooks as Hooks
from .hooks import hooks as hooks
