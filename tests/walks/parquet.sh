# # From a Parquet file to a certified folder
#
# You have embeddings in Parquet files, with a column of labels, and you want to say yourself which rows fit and which
# judge. `unspot erase` does all of this in one command; here is every step by itself. The file has sentence vectors of
# 1,600 Bible verses in three translations, and the translation is to go. Yours takes its place.
python3 <<'PYTHON'
import pandas as pd
from unspot.datasets import load_translations
rows = pd.concat(
    pd.DataFrame({"verse": s.groups, "emb": list(s.X), "translation": s.z, "part": s.y})
    for s in load_translations()
)
rows.sort_values(["verse", "translation"]).to_parquet("verses.parquet", index=False)
PYTHON
# ## Split
#
# Rows to fit on and rows to judge on are different rows. What belongs together stays together: here the translations of
# one verse, elsewhere the texts of one author or the scans of one patient.
unspot split verses.parquet -f emb -c translation --groups verse -o train.parquet test.parquet
# ## Fit
#
# The eraser is one small file. `unspot erase train.parquet` chose this one among 41, by rows of `train.parquet` only.
# The vectors have length 1, and `normalise=true` gives that back to the erased ones.
unspot fit train.parquet -f emb -c translation --method cascade --rank 0.4 --set normalise=true -o eraser.safetensors
# ## Certify
#
# Attackers learn from one half of the test rows and are judged on the other, both ways. The margin is the largest
# advantage over guessing that you count as erased: the fewer rows you have, the larger it has to be. With a margin there
# is a verdict, and the exit code is 0 only if it is HOLDS, so that a build stops before it ships what leaks.
unspot certify eraser.safetensors test.parquet --groups verse --budget quick --margin 0.1 --html certificate.html
# ## Erase
#
# Names that end in `/` are folders. Other columns, the schema and the order of rows stay. An interrupted
# run goes on where it stopped.
unspot transform eraser.safetensors train.parquet test.parquet -o clean/ --quiet
mv certificate.html eraser.safetensors clean/
ls clean
