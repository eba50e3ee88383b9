// The official client for TypeScript calls the tools.
const sdk = `${process.env.NODE_MODULES}/@modelcontextprotocol/sdk/dist/esm/client`;
const { Client } = await import(`${sdk}/index.js`);
const { StdioClientTransport } = await import(`${sdk}/stdio.js`);

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command, args }));
const progress = [];
const call = async (name, given) => {
  const onprogress = ({ progress: done, total }) => progress.push([done, total]);
  const result = await client.callTool({ name, arguments: given }, undefined, { onprogress, timeout: 120000 });
  if (result.isError) throw new Error(JSON.stringify(result));
  return result.content[0].text;
};
const { tools } = await client.listTools();
await call("write_grader", JSON.parse(process.env.GRADER));
await call("start_run", JSON.parse(process.env.RUN));
const trained = await call("train_steps", { run: "node", steps: 2, wait_seconds: -1 });
const wrong = await client.callTool({ name: "train_steps", arguments: { run: "none", steps: 1 } });
const server = client.getServerVersion().name;
console.log(JSON.stringify({ server, tools: tools.length, trained, progress, wrong: wrong.isError }));
await client.close();
