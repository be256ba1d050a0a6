from .batches import Erasure as Erasure
from .batches import erase_arrow_batch as erase_arrow_batch
from .batches import erase_batch as erase_batch
from .batches import erased_schema as erased_schema
from .batches import width_out as width_out
from .transform import Result as Result
from .transform import transform_file as transform_file
from .transform import transform_files as transform_files
