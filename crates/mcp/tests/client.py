"""The official Python MCP client against the server of examples/scripted.rs.

    client.py stdio PROGRAM [ARGUMENT...]        client.py http URL TOKEN

Prints one JSON object with what it saw.
"""
import asyncio
import json
import sys

from mcp import Client

sys.dont_write_bytecode = True  # Leave no bytecode in the source tree.
from transport import transport


async def use(mode):
    progress = []

    async def told(step, total, message):
        progress.append(message)

    async with Client(transport(), mode=mode) as client:
        tools = await client.list_tools()
        quick = await client.call_tool("launch_run", {"task": "say hi"})
        steps = await client.call_tool("launch_run", {"task": "take 80 done"}, progress_callback=told)
        long = await client.call_tool("launch_run", {"task": "offer"})
        run = long.structured_content["run_id"]
        await client.call_tool("answer_interaction", {"run_id": run, "interaction_id": "i1", "decision": "continue"})
        later = await client.call_tool("run_result", {"run_id": run})
        wrong = await client.call_tool("launch_run", {"taks": "say hi"})
        prompts = await client.list_prompts()
        prompt = await client.get_prompt(prompts.prompts[0].name, {})
        resource = await client.read_resource("althing://runs/s1.r1/result")
        return {
            "protocol": client.protocol_version,
            "instructions": client.instructions,
            "tools": [tool.name for tool in tools.tools],
            "quick": quick.structured_content["final_answer"],
            "steps": steps.structured_content["final_answer"],
            "progress": progress,
            "long": long.structured_content,
            "later": later.structured_content["status"],
            "wrong": [wrong.is_error, wrong.content[0].text],
            "prompt": prompt.messages[0].content.text,
            "resource": json.loads(resource.contents[0].text)["final_answer"],
        }


async def main():
    print(json.dumps({mode: await use(mode) for mode in ("auto", "legacy")}))


asyncio.run(main())
