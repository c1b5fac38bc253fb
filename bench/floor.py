"""The floor: a bare aiohttp loop that sends ids, decodes the answer and keeps nothing.

python -m bench.floor URL SAMPLES IN_FLIGHT
"""

import asyncio
import sys
import time

import aiohttp
import orjson
import uvloop


async def main(url: str, samples: int, in_flight: int) -> None:
    """Ask `samples` times with `in_flight` at once; print the seconds it took."""
    body = orjson.dumps(
        {
            "input_ids": list(range(100, 140)),
            "sampling_params": {"max_new_tokens": 4096},
            "return_prompt_token_ids": True,
        }
    )
    left = iter(range(samples))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def client() -> None:
            for _ in left:
                async with session.post(
                    f"{url}/generate", data=body, headers={"content-type": "application/json"}
                ) as response:
                    answer = orjson.loads(await response.read())
                    assert answer["meta_info"]["completion_tokens"] == len(answer["output_ids"])

        started = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(in_flight)))
        print(time.perf_counter() - started)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
