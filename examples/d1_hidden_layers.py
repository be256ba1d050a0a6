"""
Gender in the hidden layers of a classifier
===========================================

A small transformer learns to tell jobs from short biographies. Some jobs have more women than
men, so it learns to use gender. Each layer is erased behind the erased ones before it.
"""

# %%
# Biographies from templates, about nobody.

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from transformers import BertConfig, BertForSequenceClassification

from unspot import LEACE
from unspot.models import fit_layers

WOMEN_SHARE = [0.9, 0.1, 0.8, 0.2]
JOBS = {
    "nurse": ["cares for patients", "works on a ward", "gives medicine", "works nights"],
    "surgeon": ["operates on patients", "works in a theatre", "leads a clinic", "works nights"],
    "teacher": ["teaches children", "marks essays", "leads a school", "writes books"],
    "engineer": ["designs bridges", "writes software", "leads a team", "draws plans"],
}
WOMEN = ["anna", "maria", "julia", "sofia", "emma", "clara", "laura", "lena", "eva", "nora"]
MEN = ["peter", "paul", "karl", "jonas", "felix", "max", "anton", "leo", "hugo", "otto"]
FORMS = {"woman": ("she", "her", "mother", WOMEN), "man": ("he", "his", "father", MEN)}
TEMPLATES = [
    "{name} lives in {city} . {she} {does} and {also} . {her} friends say that {she} {hobby} .",
    "for years {name} {does} in {city} . {she} is a {mother} of two and {hobby} . {she} {also} .",
    "{she} {does} . {name} {also} , and on sundays {she} {hobby} with {her} family in {city} .",
]
CITIES = ["lyon", "turin", "graz", "porto", "ghent", "bergen"]
HOBBIES = ["sings", "runs", "cooks", "paints", "reads", "plays chess", "grows roses"]


def biographies(n, seed):
    """Texts, jobs and genders."""
    rng = np.random.default_rng(seed)
    jobs = rng.integers(len(JOBS), size=n)
    genders = np.where(rng.random(n) < np.take(WOMEN_SHARE, jobs), "woman", "man")
    texts = []
    for job, gender in zip(jobs, genders, strict=True):
        she, her, mother, names = FORMS[gender]
        does, also = rng.choice(list(JOBS.values())[job], size=2, replace=False)
        words = {"she": she, "her": her, "mother": mother, "does": does, "also": also}
        words |= {"name": rng.choice(names), "city": rng.choice(CITIES)}
        texts.append(rng.choice(TEMPLATES).format(hobby=rng.choice(HOBBIES), **words))
    return texts, jobs, genders


texts, jobs, genders = biographies(5000, seed=0)
new_texts, new_jobs, new_genders = biographies(3000, seed=1)
vocabulary = {w: i for i, w in enumerate(sorted({w for t in texts for w in t.split()}), start=2)}


def batches(texts, size=64):
    """Words as numbers: 0 is padding, and 1 begins every text."""
    for start in range(0, len(texts), size):
        rows = [[1, *(vocabulary[w] for w in text.split())] for text in texts[start : start + size]]
        ids = torch.tensor([row + [0] * (32 - len(row)) for row in rows])
        yield {"input_ids": ids, "attention_mask": (ids > 0).long()}


# %%
# Train the classifier.

torch.manual_seed(0)
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=len(vocabulary) + 2, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=32, num_labels=len(JOBS),
    )
)  # fmt: skip


def train(parameters, epochs):
    optimiser = torch.optim.AdamW(parameters, lr=1e-3)
    for _ in range(epochs):
        for batch, labels in zip(batches(texts), torch.tensor(jobs).split(64), strict=True):
            optimiser.zero_grad()
            model(**batch, labels=labels).loss.backward()
            optimiser.step()


train(model.parameters(), epochs=6)
model.eval()


@torch.no_grad()
def measure():
    """Accuracy of the job, and of a linear model that guesses gender from each layer."""
    passes = [model(**batch, output_hidden_states=True) for batch in batches(new_texts)]
    guesses = torch.cat([done.logits.argmax(-1) for done in passes]).numpy()
    layers = zip(*(done.hidden_states[1:] for done in passes), strict=True)
    states = [torch.cat([part[:, 0] for part in layer]).numpy() for layer in layers]
    probe = LogisticRegression(max_iter=1000)
    gender = [cross_val_score(probe, X, new_genders, cv=3).mean() for X in states]
    return f"job {np.mean(guesses == new_jobs):.1%}, gender {[f'{g:.1%}' for g in gender]}"


print("before:", measure())

# %%
# Fit an eraser for every layer, at the position that the head of the model reads. The head then
# learns to read the erased states, while the layers stay frozen.

erasers = fit_layers(
    model,
    list(batches(texts)),
    genders,
    layers="bert.encoder.layer.*",
    positions="cls",
    eraser=LEACE(),
)
with erasers.attach(model):
    train([*model.bert.pooler.parameters(), *model.classifier.parameters()], epochs=3)
    print("after:", measure())

# %%
# LEACE stops linear models. Against others, pass ``eraser=Cascade(rank=16)`` and certify
# the states of each layer like any other rows.
