"""
In a scikit-learn pipeline
==========================

In a pipeline, ``y`` is the task. The concept has to be passed as ``z``, by metadata routing.
"""

# %%
# The verses of :func:`unspot.datasets.load_translations`: the task is the part of the Bible, the
# concept is the translation.

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline

from unspot import LEACE, Cascade
from unspot.datasets import load_translations

data = load_translations()
train, test = data.train, data.test

# %%
# Two lines do it right: routing is turned on, and the eraser asks for ``z``.

sklearn.set_config(enable_metadata_routing=True)
eraser = LEACE().set_fit_request(z=True)

pipeline = make_pipeline(eraser, LogisticRegression(max_iter=2000))
pipeline.fit(train.X, train.y, z=train.z)
print(f"task after LEACE: {100 * pipeline.score(test.X, test.y):.1f} %")

# %%
# The concept itself is gone for a linear classifier on the same rows.

from sklearn.model_selection import cross_val_score

erased = pipeline[0].transform(test.X)
for name, X in {"original": test.X, "erased": erased}.items():
    source = cross_val_score(
        LogisticRegression(max_iter=2000),
        X,
        test.z,
        params={"groups": test.groups},
        cv=GroupKFold(),
    )
    print(f"source, {name}: {100 * np.mean(source):.1f} %")

# %%
# A search over ranks works the same way: ``z`` is split with the rows. It chooses by the task
# alone, so bound the leak by :func:`unspot.rank_path`, or certify what it chose.

search = GridSearchCV(
    make_pipeline(
        Cascade(random_state=0).set_fit_request(z=True),
        LogisticRegression(max_iter=2000),
    ),
    {"cascade__rank": [64, 192]},
    cv=3,
)
search.fit(train.X, train.y, z=train.z)
print(search.best_params_, f"{100 * search.score(test.X, test.y):.1f} %")
sklearn.set_config(enable_metadata_routing=False)
