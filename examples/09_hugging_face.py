"""Hugging Face `Trainer`: find the desk for a message, from desks that said "not ours".

Nothing is downloaded: the messages are generated, and a small BERT starts from random weights. With
a model of the hub, load tokenizer and model with `from_pretrained` and keep the rest. The true
desks are used only to generate the messages and the complementary labels, and to score at the end.
"""

import tempfile

import numpy as np
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers

from naysay import TransitionMatrix
from naysay.losses import ForwardCrossEntropy

WORDS = {
    "billing": ["invoice", "refund", "charged", "payment", "receipt"],
    "delivery": ["parcel", "courier", "late", "address", "lost"],
    "account": ["password", "login", "locked", "email", "reset"],
    "returns": ["broken", "exchange", "damaged", "size", "wrong"],
    "any": ["hello", "please", "my", "the", "order", "not", "today"],
}
true_Q = TransitionMatrix(  # messages for billing are mostly sent to account by mistake
    [[0, 0.1, 0.7, 0.2], [0.2, 0, 0.1, 0.7], [0.7, 0.2, 0, 0.1], [0.1, 0.7, 0.2, 0]],
    classes=list(WORDS)[:4],
)
of_desk = list(WORDS.values())
all_words = [word for words in of_desk for word in words]
rng = np.random.default_rng(0)
y = rng.integers(4, size=1200)
texts = [  # three words of the desk and two to five of any kind
    " ".join(
        rng.permutation([*rng.choice(of_desk[desk], 3), *rng.choice(all_words, rng.integers(2, 6))])
    )
    for desk in y
]
not_y = true_Q.sample(y, seed=0)

vocabulary = {word: number for number, word in enumerate(["[PAD]", *all_words])}
by_word = Tokenizer(models.WordLevel(vocabulary, unk_token="[PAD]"))
by_word.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=by_word, pad_token="[PAD]")
data = [{**tokenizer(text), "labels": label} for text, label in zip(texts, not_y, strict=True)]


def loss_through(Q):
    loss = ForwardCrossEntropy(Q, reduction="sum")  # over all batches of one step
    return lambda outputs, labels, num_items_in_batch: (
        loss(outputs.logits, labels) / num_items_in_batch
    )


def predict_after_training(Q, folder):
    hf.set_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    config = hf.BertConfig(vocab_size=len(vocabulary), num_attention_heads=2, num_labels=4, **sizes)
    arguments = hf.TrainingArguments(
        folder,
        num_train_epochs=5,
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = hf.Trainer(
        hf.BertForSequenceClassification(config),
        arguments,
        train_dataset=data[:800],
        data_collator=hf.DataCollatorWithPadding(tokenizer),
        compute_loss_func=loss_through(Q),
    )
    trainer.remove_callback(hf.PrinterCallback)
    trainer.train()
    return trainer.predict(data[800:]).predictions.argmax(1)


for name, Q in (("Q known", true_Q), ("Q ignored", TransitionMatrix.uniform(4))):
    with tempfile.TemporaryDirectory() as folder:
        accuracy = (predict_after_training(Q, folder) == y[800:]).mean()
    print(f"{name}: {accuracy:.0%} of 400 new messages right")
