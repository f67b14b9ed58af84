"""Hugging Face `Trainer`: the topic of a text, from "this is not about statistics".

    python 09_hugging_face.py [FOLDER]

The texts are the documentation of SciPy, as in 11_text.py. FOLDER has a model of the hub, which is
fine-tuned; without one, a small BERT starts from random weights. Nothing is downloaded. The true
topics are used only to draw the complementary labels, and to score at the end.
"""

import runpy
import sys
import tempfile
from pathlib import Path

import numpy as np
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from naysay import TransitionMatrix
from naysay.losses import ForwardCrossEntropy

small = "--small" in sys.argv
folders = [argument for argument in sys.argv[1:] if argument != "--small"]

topics = ["signal", "spatial", "special", "stats"]
texts_about = runpy.run_path(str(Path(__file__).with_name("11_text.py")))["texts_about"]
found = [texts_about(topic) for topic in topics]
y = np.repeat(np.arange(4), [len(texts) for texts in found])
order = np.random.default_rng(0).permutation(len(y))[: 120 if small else None]
texts, y = np.concatenate(found)[order].tolist(), y[order]
n = len(y) * 3 // 4  # the others are new to the model
true_Q = TransitionMatrix(  # for each topic, annotators think of two others
    [[0, 0, 0.7, 0.3], [0.3, 0, 0, 0.7], [0.7, 0.3, 0, 0], [0, 0.7, 0.3, 0]], topics
)
not_y = true_Q.sample(y, seed=0)

if folders:
    tokenizer = hf.AutoTokenizer.from_pretrained(folders[0])
else:
    by_word = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    by_word.pre_tokenizer = pre_tokenizers.Whitespace()
    special = trainers.WordLevelTrainer(vocab_size=2000, special_tokens=["[PAD]", "[UNK]"])
    by_word.train_from_iterator((text.lower() for text in texts[:n]), special)
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=by_word, pad_token="[PAD]", unk_token="[UNK]"
    )
data = [
    {**tokenizer(text.lower(), truncation=True, max_length=64), "labels": label}
    for text, label in zip(texts, not_y.tolist(), strict=True)
]


def make_model():
    if folders:
        return hf.AutoModelForSequenceClassification.from_pretrained(folders[0], num_labels=4)
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
    return hf.BertForSequenceClassification(
        hf.BertConfig(vocab_size=len(tokenizer), num_attention_heads=2, num_labels=4, **sizes)
    )


def loss_through(Q):
    loss = ForwardCrossEntropy(Q, reduction="sum")  # over all batches of one step
    return lambda outputs, labels, num_items_in_batch: (
        loss(outputs.logits, labels) / num_items_in_batch
    )


def predict_after_training(Q, folder):
    hf.set_seed(0)
    arguments = hf.TrainingArguments(
        folder,
        num_train_epochs=1 if small else 3 if folders else 10,
        per_device_train_batch_size=16,
        learning_rate=1e-4 if folders else 2e-3,
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = hf.Trainer(
        make_model(),
        arguments,
        train_dataset=data[:n],
        data_collator=hf.DataCollatorWithPadding(tokenizer),
        compute_loss_func=loss_through(Q),
    )
    trainer.remove_callback(hf.PrinterCallback)
    trainer.train()
    return trainer.predict(data[n:]).predictions.argmax(1)


for name, Q in (("Q known", true_Q), ("Q ignored", TransitionMatrix.uniform(4))):
    with tempfile.TemporaryDirectory() as folder:
        accuracy = (predict_after_training(Q, folder) == y[n:]).mean()
    print(f"{name}: {accuracy:.0%} of {len(y) - n} new texts right")
