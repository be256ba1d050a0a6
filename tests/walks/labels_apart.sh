# # Labels in a separate file, with gaps
#
# The vectors are in one file, and the labels in another: exported by somebody else, in another order, not for all rows.
# Here are two such files of real words to try it with. The labels have semicolons, as in many countries.
python3 <<'PYTHON'
import numpy as np, pandas as pd
from unspot.datasets import load_glove_gender
words = load_glove_gender().train
pd.DataFrame({"word": words.names, "emb": list(words.X)})[::4].to_parquet("vectors.parquet")
labels = pd.DataFrame({"word": words.names, "gender": words.z})[::4].sample(2500, random_state=0)
labels.loc[labels.index % 50 == 0, "gender"] = None
labels.to_csv("labels.csv", sep=";", index=False)
PYTHON
head -3 labels.csv
# ## Row by row is not enough
#
# Without a key, labels are taken in the order of the rows. Another length or another order is noticed:
unspot fit vectors.parquet --labels labels.csv --concept gender -o gender.safetensors || echo "exit code $?"
# ## By key
#
# `--set key=word` names a column of both files. Rows without a label are an error, unless you leave them out with
# `--set drop_missing=true`, which says how many there are.
unspot fit vectors.parquet --labels labels.csv --set key=word --set drop_missing=true --concept gender --rank 60 -o gender.safetensors
#
# New rows come with their own labels: all commands take the same options, also `unspot erase`, which chooses method and
# rank.
