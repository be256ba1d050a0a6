from .bundled import load_glove_gender as load_glove_gender
from .bundled import load_translations as load_translations
