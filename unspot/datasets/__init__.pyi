from .glove import load_glove_gender as load_glove_gender
from .glove import load_wordsim353 as load_wordsim353
from .translations import load_translations as load_translations
