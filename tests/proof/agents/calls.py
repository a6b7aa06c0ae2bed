"""Start agent.py, the program of docs/agents.md, as the host of an agent does, and call its tools.

Prints what the host and the agent see, as JSON.
"""

import asyncio
import json
import os

import agent
from fastmcp import Client, FastMCP
from fastmcp.client.transports import PythonStdioTransport
from fastmcp.exceptions import ToolError

ENVIRONMENT = {name: os.environ[name] for name in ("URL", "TOKEN")}


def described(tool):
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main():
    async with Client(PythonStdioTransport("agent.py", env=ENVIRONMENT)) as client:

        async def call(name, **arguments):
            return (await client.call_tool(name, arguments)).structured_content

        tools = [described(tool) for tool in await client.list_tools()]
        cursor = (await call("listEvents"))["nextCursor"]
        key = {"Idempotency-Key": "first"}
        task = await call("createTask", title="Call Ada", **key)
        repeated = await call("createTask", title="Call Ada", **key)
        tried = await call("createTask", title="Call Bob", dryRun=True)
        await call("deleteTask", taskId=task["id"], dryRun=True)
        kept = await call("getTask", taskId=task["id"])
        titles = [found["title"] for found in (await call("listTasks"))["data"]]
        await call("deleteTask", taskId=task["id"])
        try:
            await call("getTask", taskId=task["id"])
        except ToolError as error:
            refused = str(error)
        events = (await call("listEvents", after=cursor))["data"]
    async with Client(FastMCP.from_openapi(agent.document, agent.api)) as client:
        everything = [described(tool) for tool in await client.list_tools()]
    printed = {
        "tools": tools,
        "everything": everything,
        "created": [task, repeated, kept],
        "tried": [tried["title"], tried.keys() == task.keys()],
        "titles": titles,
        "refused": refused,
        "events": [event["type"] for event in events],
    }
    print(json.dumps(printed))


asyncio.run(main())
