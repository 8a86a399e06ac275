from tidegate.api import OffsetRange as OffsetRange
from tidegate.api import files as files
from tidegate.api import open_lake as open_lake
from tidegate.api import plan as plan
from tidegate.api import run as run
from tidegate.api import status as status

__version__: str
