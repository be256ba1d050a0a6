"""
Sentence embeddings of biographies
==================================

Take gender out of biographies that a model sorts by occupation. Leaving out "she" and "he" is not
enough.
"""

# %%
# Real biographies belong to the people they tell of, so none are in the package. These are made up
# by a law that is all in this block: words of an occupation, and of a leisure that leans to a
# gender. No name and no pronoun is among them.

import numpy as np

rng = np.random.default_rng(0)
occupations = {  # share of women, and what they write about
    "nurse": (0.85, "patients hospital ward care clinic health night shift newborn"),
    "teacher": (0.70, "school students lessons classroom children history reading exams"),
    "lawyer": (0.45, "court clients contracts cases trial law firm judge appeal"),
    "engineer": (0.20, "machines bridges design software systems tests sensors steel"),
}
leisure = {  # what women mention more often, and what men do
    "f": "netball knitting ballet choir yoga sisterhood sorority",
    "m": "football fishing boxing woodwork poker brotherhood fraternity",
}
common = "studied in the city worked years with team and likes travel cooking music"


def biography(job, gender):
    """Words of the occupation, of the place, and of a leisure that leans to the gender."""
    other = "m" if gender == "f" else "f"
    hobbies = leisure[gender if rng.random() < 0.8 else other]
    parts = [(occupations[job][1], 5), (common, 8), (hobbies, 2)]
    chosen = [rng.choice(words.split(), number) for words, number in parts]
    return " ".join(rng.permutation(np.concatenate(chosen)))


n = 8000
job = rng.choice(list(occupations), n)
gender = np.where(rng.random(n) < [occupations[name][0] for name in job], "f", "m")
texts = [biography(*row) for row in zip(job, gender, strict=True)]
print(f"{job[0]}, {gender[0]}: {texts[0]}")

# %%
# Any model that gives a vector for a text will do. With sentence-transformers this is
# ``X = SentenceTransformer(name).encode(texts)``.
# Latent semantic analysis needs no download: words weighed by their rarity, in 40 directions.

from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

encoder = make_pipeline(TfidfVectorizer(), TruncatedSVD(40, random_state=0))
X = encoder.fit_transform(texts)

from unspot import LEACE, LEOPARD, Cascade, Dataset, evaluate

data = Dataset.from_arrays(X, gender, job, concept="gender", name="biographies", random_state=0)
print(data)

# %%
# Three erasers. The last one erases what tells the gender *within* each occupation, and leaves what
# the occupation itself tells: most nurses are women.

train = data.train
erasers = {
    "LEACE": LEACE().fit(train.X, train.z),
    "cascade": Cascade(LEOPARD(rank=20, random_state=0)).fit(train.X, train.z),
    "cascade, given the job": Cascade(LEOPARD(rank=20, random_state=0)).fit(
        train.X, train.z, given=train.y
    ),
}
evaluations = {
    name: evaluate(eraser, data, metrics=["attack", "task_linear"], seeds=1)
    for name, eraser in erasers.items()
}

# %%
# What those read who see no text, and know only the job:

from sklearn.metrics import balanced_accuracy_score

share_of_women = {name: np.mean(train.z[train.y == name] == "f") for name in occupations}
guess = np.where([share_of_women[name] > 0.5 for name in data.test.y], "f", "m")
from_the_job = balanced_accuracy_score(data.test.z, guess)

found = {"original": [row.before.mean for row in evaluations["LEACE"]]}
found |= {name: [row.after.mean for row in result] for name, result in evaluations.items()}
for name, (gender_read, job_read) in found.items():
    print(f"{name:24} gender {100 * gender_read:5.1f} %   job {100 * job_read:5.1f} %")
print(f"{'the job alone':24} gender {100 * from_the_job:5.1f} %")

# %%
# Nobody gets both. As the job tells the gender, an eraser that hides the gender hides much of the
# job, and one that keeps the job leaves what the job tells of the gender, and hardly more. Which of
# the two is right depends on what the rows are for, and no method can decide that.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for name, (gender_read, job_read) in found.items():
    axes.plot(100 * gender_read, 100 * job_read, "o", markersize=9, label=name)
axes.axvline(50, color="0.3", linestyle="--", label="chance")
axes.axvline(100 * from_the_job, color="0.3", linestyle=":", label="what the job alone tells")
axes.set(xlabel="gender read by the strongest attacker, %", ylabel="job read, %")
axes.legend(frameon=False, loc="center", bbox_to_anchor=(0.5, 0.42))
plt.show()
