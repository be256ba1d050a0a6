"""
Gender in the hidden layers of a classifier
===========================================

A small transformers model learns to tell jobs from short biographies. Gender is of no use for that:
each job has as many women as men. Its layers give gender away all the same. Each layer is erased
behind the erased ones before it, the head of the model learns to read the erased states, and
attackers try to read gender from new biographies. As a script::

    python examples/d1_hidden_layers.py [--json FILE]

It takes about a minute on one core. The biographies are made from the templates below with a
fixed seed; they are about nobody.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score
from transformers import BertConfig, BertForSequenceClassification

from unspot import LEOPARD, Cascade
from unspot.models import fit_layers

#: What people of each job do; some of it is done in two jobs.
JOBS = {
    "nurse": ["cares for patients", "works on a ward", "gives medicine", "works nights"],
    "surgeon": ["operates on patients", "works in a theatre", "leads a clinic", "works nights"],
    "teacher": ["teaches children", "marks essays", "leads a school", "writes books"],
    "professor": ["teaches students", "marks essays", "leads a laboratory", "writes books"],
    "engineer": ["designs bridges", "writes software", "leads a team", "draws plans"],
    "designer": ["designs posters", "draws plans", "leads a team", "paints"],
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


def biographies(n: int, seed: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Texts, jobs and genders. A tenth of the people do what those of another job do."""
    rng = np.random.default_rng(seed)
    jobs, genders = rng.integers(len(JOBS), size=n), rng.choice(list(FORMS), size=n)
    seen = np.where(rng.random(n) < 0.1, rng.integers(len(JOBS), size=n), jobs)
    texts = []
    for job, gender in zip(seen, genders, strict=True):
        she, her, mother, names = FORMS[gender]
        does, also = rng.choice(list(JOBS.values())[job], size=2, replace=False)
        template, name = rng.choice(TEMPLATES), rng.choice(names)
        city, hobby = rng.choice(CITIES), rng.choice(HOBBIES)
        words = {"she": she, "her": her, "mother": mother, "name": name, "city": city}
        texts.append(str(template).format(does=does, also=also, hobby=hobby, **words))
    return texts, jobs, genders


class Words:
    """A tokenizer of whole words: 0 is padding, 1 begins every text."""

    def __init__(self, texts: list[str]) -> None:
        words = sorted({word for text in texts for word in text.split()})
        self.numbers = {word: i for i, word in enumerate(words, start=2)}

    def batches(self, texts: list[str], size: int = 64) -> list[dict[str, torch.Tensor]]:
        found = []
        for start in range(0, len(texts), size):
            part = [text.split() for text in texts[start : start + size]]
            rows = [[1, *(self.numbers[word] for word in text)] for text in part]
            longest = max(map(len, rows))
            ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
            found.append({"input_ids": ids, "attention_mask": (ids > 0).long()})
        return found


def trained(batches: list, jobs: np.ndarray, n_words: int, epochs: int) -> torch.nn.Module:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=n_words + 2, hidden_size=64, num_hidden_layers=4, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=64, num_labels=len(JOBS),
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    labels = torch.tensor(jobs).split(len(batches[0]["input_ids"]))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 1e-3, epochs=epochs, steps_per_epoch=len(batches)
    )
    for _ in range(epochs):
        for i in torch.randperm(len(batches)).tolist():
            optimiser.zero_grad()
            model(**batches[i], labels=labels[i]).loss.backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def train_head(model: torch.nn.Module, batches: list, jobs: np.ndarray, epochs: int = 15) -> None:
    """Train the last two layers on states as they come, erased or not; the body stays frozen."""
    with torch.no_grad():
        states = torch.cat([model.bert(**batch).last_hidden_state[:, :1] for batch in batches])
    torch.manual_seed(0)
    head, labels = torch.nn.Sequential(model.bert.pooler, model.classifier), torch.tensor(jobs)
    optimiser = torch.optim.AdamW(head.parameters(), lr=3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(states)).split(64):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(head(states[rows]), labels[rows]).backward()
            optimiser.step()


def accuracy(model: torch.nn.Module, batches: list, jobs: np.ndarray) -> float:
    with torch.no_grad():
        guesses = torch.cat([model(**batch).logits.argmax(-1) for batch in batches])
    return float((guesses.numpy() == jobs).mean())


def readable(model: torch.nn.Module, batches: list, genders: np.ndarray) -> list[float]:
    """How often boosted trees guess gender from the first token, layer by layer."""
    with torch.no_grad():
        passes = [model.bert(**batch, output_hidden_states=True).hidden_states for batch in batches]
    layers = [torch.cat([states[:, 0] for states in layer]) for layer in zip(*passes, strict=True)]
    trees = HistGradientBoostingClassifier()
    return [cross_val_score(trees, X.numpy(), genders, cv=3).mean() for X in layers[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Gender in the hidden layers of a classifier.")
    parser.add_argument("--json", help="where to write the numbers")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()

    texts, jobs, _ = biographies(4000, seed=0)
    fit_texts, _, genders = biographies(8000, seed=1)
    new_texts, new_jobs, new_genders = biographies(6000, seed=2)
    words = Words(texts + fit_texts + new_texts)
    batches, new = words.batches(texts), words.batches(new_texts)
    model = trained(batches, jobs, len(words.numbers), epochs=4)
    before = accuracy(model, new, new_jobs)
    print(f"jobs of new texts: {100 * before:.1f} % ({time.process_time() - started:.0f} s)")

    erasers = fit_layers(
        model,
        words.batches(fit_texts),
        genders,
        layers="bert.encoder.layer.*",
        positions="cls",  # the only one that the head of the model reads
        eraser=Cascade(LEOPARD(rank=16, random_state=0)),
    )
    gender = {"before": readable(model, new, new_genders)}
    with erasers.attach(model):
        gender["after"] = readable(model, new, new_genders)
        train_head(model, batches, jobs)
        after = accuracy(model, new, new_jobs)
    seconds = time.process_time() - started
    for when, shares in gender.items():
        print(f"gender {when}:", ", ".join(f"{100 * share:.1f} %" for share in shares))
    print(f"jobs of new texts: {100 * after:.1f} % with erased layers ({seconds:.0f} s in all)")
    if arguments.json:
        task = {"before": before, "after": after}
        result = {"seconds": seconds, "task": task}
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({**result, "gender": gender}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
