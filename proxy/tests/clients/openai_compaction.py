"""A conversation that is compacted by OpenAI's own client of the Responses API.

usage: openai_compaction.py BASE_URL

Asks, compacts the conversation once by its items and once by the response's id, and asks on from each. Prints the types of the
items of each compaction with what was said then, as a JSON list.
"""

import json
import sys

from openai import BadRequestError, OpenAI

client = OpenAI(base_url=sys.argv[1])
question = [{"role": "user", "content": "Rain in Paris?"}]
response = client.responses.create(model="tiny", input=question)
results = []
for conversation in ({"input": question + response.output}, {"previous_response_id": response.id}):
    compacted = client.responses.compact(model="tiny", **conversation)
    assert compacted.object == "response.compaction", compacted
    assert compacted.usage.output_tokens > compacted.usage.output_tokens_details.reasoning_tokens > 0
    after = client.responses.create(
        model="tiny", input=[*compacted.output, {"role": "user", "content": "And Rome?"}]
    )
    results.append([[item.type for item in compacted.output], after.output_text])
try:
    client.responses.create(model="tiny", input=[{"type": "compaction", "encrypted_content": "gAAAAABp"}])
except BadRequestError as error:
    results.append(error.param)
print(json.dumps(results))
