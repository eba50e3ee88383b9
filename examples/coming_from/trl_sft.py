"""What sft.toml is in TRL. Prints the loss of each update as a line of JSON.

    python3 trl_sft.py [--newline]       # with it, the newline that the template writes behind an answer is trained
"""

import sys

import transformers
import trl
from trl_common import DIRECTORY, MODEL, Printed, read, tokenizer

settings = trl.SFTConfig(
    output_dir=DIRECTORY,
    model_init_kwargs={"dtype": "float32"},
    max_length=256,
    num_train_epochs=1,  # `read` has both epochs, in our order
    per_device_train_batch_size=16,
    learning_rate=3e-4,
    lr_scheduler_type="linear",
    train_sampling_strategy="sequential",
    seed=1,
    bf16=False,
    gradient_checkpointing=False,
    use_cpu=True,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
)


def split(row):
    """The model's template marks no generation, so the answer has to be a column of its own for TRL to train it alone."""
    return {"prompt": row["messages"][:-1], "completion": row["messages"][-1:]}


trainer = trl.SFTTrainer(
    model=MODEL,
    args=settings,
    train_dataset=read("chats.jsonl", epochs=2).map(split, remove_columns="messages"),
    processing_class=tokenizer(ends_with_newline="--newline" in sys.argv),
    callbacks=[Printed("loss", "mean_token_accuracy")],
)
trainer.remove_callback(transformers.PrinterCallback)
trainer.train()
