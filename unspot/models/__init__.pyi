from .embedding import embed_texts as embed_texts
