from .concept import Classes as Classes
from .concept import Number as Number
from .concept import Table as Table
