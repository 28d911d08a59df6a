import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld, untilGone } from '../support/agent-world.ts'
import { askAgainAndAgain } from '../support/endless-requests.ts'
import { eventually } from '../support/eventually.ts'
import { freePort, freePorts } from '../support/free-port.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { askAsProgramsDo, askedService, clientOf, vectorsService } from '../support/openai-requests.ts'
import { parsePrometheusText } from '../support/prometheus-text.ts'
import { sampleServerPath, type SampleScript } from '../support/sample-servers/sample.ts'
import { useLlamaServer, useSmallModel } from '../support/skip.ts'

interface Scene extends AsyncDisposable {
  readonly world: AgentWorld
  readonly url: string
  readonly port: number
  start(...more: string[]): Promise<AgentProcess>
  /** One of a later version. */
  startLater(): Promise<AgentProcess>
}

const laterVersion = fileURLToPath(new URL('../support/agent-of-next-version.ts', import.meta.url))

/** Agents as processes, one after the other on the same state folder, with a client proxy. */
async function scene(llamaServer = sampleServerPath): Promise<Scene> {
  await using stack = new AsyncDisposableStack()
  const sim = stack.use(await KubeSim.start())
  const world = stack.use(await AgentWorld.open(sim.connection()))
  const port = await freePort()
  const folder = path.join(world.folder, 'agent')
  let agent: AgentProcess | undefined
  stack.defer(async () => {
    await agent?.stop()
  })
  const start = async (more: readonly string[], command?: readonly string[]): Promise<AgentProcess> => {
    const args = ['--namespace', world.namespace, '--llama-server', llamaServer, '--allow-unsafe-extra-args', ...more]
    agent = await AgentProcess.start({
      ...{ folder, kubeconfig: sim.kubeconfig(), args: [...args, '--client-port', String(port)] },
      ...(command && { command }),
    })
    return agent
  }
  const owned = stack.move()
  return {
    ...{ world, port, url: `http://127.0.0.1:${port}` },
    start: (...more) => start(more),
    startLater: () => start([], [process.execPath, laterVersion]),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const pidOf = async (agent: AgentProcess, msg: 'started the gateway' | 'took over the gateway'): Promise<number> =>
  Number((await agent.logged(msg))['pid'])

async function chat(url: string, body: object): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], ...body }),
  })
  return { status: answer.status, text: await answer.text() }
}

/** On a connection of its own. */
async function streamed(port: number, body: object): Promise<string> {
  const sent = request({ host: '127.0.0.1', port, method: 'POST', path: '/v1/chat/completions', agent: false })
  sent.end(JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], stream: true, ...body }))
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return `${answer.statusCode} ${await text(answer)}`
}

test('programs of this machine reach every model by its name, and metrics count what they were answered', async () => {
  await using there = await scene()
  const { world, url } = there
  const health = await freePorts(1)
  const agent = await there.start('--port', String(health))
  await world.apply('one')
  await world.apply('two', { modelRef: 'two' })
  await agent.service('one', 'ready')
  await agent.service('two', 'ready')
  for (const [model, answers] of Object.entries({ one: 'one', two: 'two', [`${world.namespace}/two`]: 'two' })) {
    const { status, text } = await chat(url, { model })
    expect([status, (JSON.parse(text) as { model: string }).model]).toEqual([200, answers])
  }
  const byPath = await chat(`${url}/${world.namespace}/one`, { model: 'whatever' })
  expect((JSON.parse(byPath.text) as { model: string }).model).toBe('one')
  expect((await chat(url, { model: 'gpt-4' })).status).toBe(404)
  expect((await chat(url, {})).status).toBe(400)
  expect((await fetch(`${url}/slots`)).status).toBe(403)
  const listed = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
  expect(listed.data.map(({ id }) => id).toSorted()).toEqual(['one', 'two'])
  const metrics = await (await fetch(`http://127.0.0.1:${health}/metrics`)).text()
  const family = parsePrometheusText(metrics).get('llmkube_metal_agent_client_proxy_requests_total')
  const counts = family?.samples.map(({ labels, value }) => [labels['outcome'] ?? '', value] as const) ?? []
  expect(Object.fromEntries(counts)).toEqual({
    ...{ no_backend: 0, '2xx': 5, '3xx': 0, '4xx': 2, '5xx': 0, other: 0, bad_host: 0, path_forbidden: 1 },
  })
  expect((await agent.run('status')).stdout).toContain(`Local    ${url}/v1 for programs on this machine`)
  // It is drained like any other: nothing is left of the agent, its servers and its gateway.
  const pid = await pidOf(agent, 'started the gateway')
  await agent.stop()
  await untilGone(pid)
})

test('a service that does not serve says why, in the words of every other surface', async () => {
  await using there = await scene()
  const { world, url } = there
  const agent = await there.start()
  await world.apply('held')
  await world.applyService('lacking', { modelRef: 'nothing' })
  await agent.service('held', 'ready')
  await agent.run('stop', 'held')
  for (const [name, state] of [['held', 'stopped'] as const, ['lacking', 'waiting'] as const]) {
    await eventually(async () => {
      const { message } = await agent.service(name, state)
      const error = { message: `${name} is not serving at the moment: ${message}`, type: 'server_error' }
      const said = `${JSON.stringify({ error: { ...error, code: 'not_serving' } })}\n`
      return isDeepStrictEqual(await chat(url, { model: name }), { status: 503, text: said })
    })
  }
  const { services } = (await (await fetch(url)).json()) as { services: { id: string; serves: boolean }[] }
  expect(services.map(({ id, serves }) => `${id} ${serves}`).toSorted()).toEqual(['held false', 'lacking false'])
  expect(await (await fetch(`${url}/v1/models`)).json()).toEqual({ object: 'list', data: [] })
})

test('an agent that is killed and started again, and one of a later version, fail none of 100 streams; only a gateway that is replaced refuses, and for a moment', async () => {
  await using there = await scene()
  const { world, url, port } = there
  const agent = await there.start()
  await world.apply('tiny', { script: { tokenMs: 250 } satisfies SampleScript })
  const server = await agent.service('tiny', 'ready')
  const gateway = await pidOf(agent, 'started the gateway')
  await eventually(async () => (await fetch(`${url}/health`)).ok)
  const streams = Array.from({ length: 100 }, () => streamed(port, { max_tokens: 60, model: 'tiny' }))
  await using asking = askAgainAndAgain(port, { tokens: 2 })
  await eventually(() => asking.answered > 2)
  agent.signal('SIGKILL')
  await agent.exited
  await asking.more()
  const next = await there.start()
  expect(await pidOf(next, 'took over the gateway')).toBe(gateway)
  next.signal('SIGKILL')
  await next.exited
  expect(asking.failed).toEqual([])
  const later = await there.startLater()
  expect((await later.logged('replaced the gateway'))['pid']).toBe(gateway)
  await later.service('tiny', 'ready')
  await asking.more()
  const answers = await Promise.all(streams)
  expect({
    whole: answers.filter((answer) => answer.startsWith('200 ') && answer.endsWith('data: [DONE]\n\n')).length,
    server: (await later.service('tiny', 'ready')).pid,
  }).toEqual({ whole: 100, server: server.pid })
  const failedBefore = asking.failed.length
  await asking.more()
  expect(asking.failed.length).toBe(failedBefore)
  await untilGone(gateway)
})

test('a gateway that is killed is back, and knows what serves', async () => {
  await using there = await scene()
  const { world, url } = there
  const agent = await there.start()
  await world.apply('tiny')
  await agent.service('tiny', 'ready')
  const first = await pidOf(agent, 'started the gateway')
  await eventually(async () => (await fetch(`${url}/health`)).ok)
  process.kill(first, 'SIGKILL')
  await eventually(async () => (await fetch(`${url}/health`)).ok)
  const [started, again] = agent.log.filter(({ msg }) => msg === 'started the gateway').map(({ pid }) => pid)
  expect([started, again !== first]).toEqual([first, true])
})

test('an agent that leaves its models to the next one leaves the gateway too', async () => {
  await using there = await scene()
  const { world, url } = there
  const agent = await there.start()
  await world.apply('tiny')
  await agent.service('tiny', 'ready')
  const gateway = await pidOf(agent, 'started the gateway')
  await agent.run('shutdown', '--keep-serving')
  await agent.exited
  expect((await chat(url, { model: 'tiny' })).status).toBe(200)
  const without = await there.start('--client-port', '0')
  await without.service('tiny', 'ready')
  await without.stop()
  await untilGone(gateway)
})

const llamaServer = useLlamaServer()
const smallModel = useSmallModel()

test("a real model in llama-server by OpenAI's own client and curl: whole, streamed, stopped, too long, many at once, cancelled, tools and embeddings", async () => {
  await using there = await scene(llamaServer)
  const { world, url } = there
  const agent = await there.start('--allowed-model-roots', path.dirname(smallModel))
  await world.applyModel('llama', { source: smallModel })
  await world.applyService('llama', { spec: askedService })
  await world.applyService('vectors', { modelRef: 'llama', spec: vectorsService })
  const { port: enginePort } = await agent.service('llama', 'ready')
  await agent.service('vectors', 'ready')
  const client = clientOf(`${url}/v1`)
  expect((await client.models.list()).data.map(({ id }) => id).toSorted()).toEqual(['llama', 'vectors'])
  await askAsProgramsDo({
    ...{ chat: { url: `${url}/v1`, model: 'llama' }, enginePort },
    vectors: { url: `${url}/v1`, model: 'vectors' },
  })
  await expect(client.chat.completions.create({ model: 'gpt-4', messages: [] })).rejects.toMatchObject({
    ...{
      status: 404,
      code: 'model_not_found',
      message: expect.stringContaining('Available: llama, vectors.') as string,
    },
  })
})
