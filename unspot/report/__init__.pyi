from .page import to_html as to_html
from .views import make_views as make_views
