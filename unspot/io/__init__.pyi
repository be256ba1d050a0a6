from .sources import RowSource as RowSource
from .sources import as_source as as_source
from .tables import Table as Table
from .tables import read_table as read_table
