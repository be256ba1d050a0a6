from .glove import glove_gender as glove_gender
from .glove import load_glove_gender as load_glove_gender
from .glove import load_wordsim353 as load_wordsim353
from .glove import read_glove as read_glove
from .translations import load_translations as load_translations
