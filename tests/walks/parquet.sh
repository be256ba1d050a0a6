# # From a Parquet file to a certified folder
#
# You have embeddings in Parquet files, with a column of labels. You want the same files without the concept, and a
# page that says what an attacker could still recover. Here are files to try it with; yours take their place.
python3 <<'PYTHON'
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
gender = rng.choice(["f", "m"], 6000)
X = rng.normal(size=(6000, 16)).astype("float32")
X[:, 0] += 2.0 * (gender == "m")
frame = pd.DataFrame({"id": range(6000), "emb": list(X), "gender": gender})
frame[:2000].to_parquet("train.parquet")
frame[2000:].to_parquet("test.parquet")
PYTHON
# ## Fit
#
# Rows to fit on and rows to judge on are different rows. The eraser is one small file.
unspot fit train.parquet --features emb --concept gender --method leace -o gender.safetensors
# ## Certify
#
# Attackers learn from one half of the test rows and are judged on the other, both ways. The margin is the largest
# advantage over guessing that you count as erased: the fewer rows you have, the larger it has to be. With a margin there
# is a verdict, and the exit code is 0 only if it is HOLDS, so that a pipeline stops before it ships what leaks.
unspot certify gender.safetensors test.parquet --budget quick --margin 0.1 --html certificate.html
# ## Erase
#
# Names that end in `/` are folders. Other columns, the schema and the order of rows stay. An interrupted
# run goes on where it stopped.
unspot transform gender.safetensors train.parquet test.parquet -o clean/ --quiet
mv certificate.html gender.safetensors clean/
ls clean
