from .paper import paper_rows as paper_rows
from .run import bench as bench
