import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { AgentWorld, commandLineOf, hostIp, roomForOne, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { askAgainAndAgain } from '../support/endless-requests.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { PublishedPort } from '../support/published-port.ts'
import { patienceMs } from '../support/running-agent.ts'
import { useLlamaServer } from '../support/skip.ts'

describe('a changed specification', () => {
  const api = useRealApiServer()
  const open = () => AgentWorld.open(api().connection)

  test('fails no request where both servers fit: the new one answers first, and the old one finishes what it began', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny', {
      spec: { parallelSlots: 4 },
      script: { loadMs: 500, tokenMs: 50 },
    })
    await using published = new PublishedPort(api().connection, world.namespace, 'tiny')
    await published.until(before.port)
    const clients = new AsyncDisposableStack()
    const requests = Array.from({ length: 3 }, () => clients.use(askAgainAndAgain(() => published.now)))
    const stream = completion(before.port, 160)
    await eventually(() => stream.text.length > 0, { timeoutMs: patienceMs })

    await world.patchSpec('tiny', { contextSize: 4096 })
    const beside = await agent.until('tiny', ({ message }) => message.includes('The new server is started beside it'))
    const after = await agent.untilReadyAgain('tiny', before.pid)
    expect(await commandLineOf(before.pid)).toBeDefined()
    const streamed = await stream.end
    await Promise.all(requests.map((client) => client.more()))
    await untilGone(before.pid)
    await Promise.all(requests.map((client) => client.more()))
    await clients.disposeAsync()

    expect(beside).toMatchObject({ state: 'ready', pid: before.pid, port: before.port, reason: 'Serving' })
    expect(beside.message).toMatch(
      new RegExp(`^Serving at ${hostIp}:${before.port}\\. The new server is started beside it`),
    )
    expect({
      failed: requests.flatMap(({ failed }) => failed),
      streamed,
      shown: published.history,
      starts: agent.starts,
      restarts: after.restarts,
      commandLine: await commandLineOf(after.pid),
    }).toEqual({
      failed: [],
      streamed: 'whole',
      shown: [before.port, after.port],
      starts: 2,
      restarts: 0,
      commandLine: expect.stringContaining('--ctx-size 4096') as string,
    })
    expect((await world.endpoints('tiny'))?.['subsets']).toMatchObject([{ ports: [{ port: after.port }] }])
  })

  test('that a person asks for by Restart is a swap as well', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny', { script: { loadMs: 300 } })
    await using published = new PublishedPort(api().connection, world.namespace, 'tiny')
    await published.until(before.port)
    const service = { namespace: world.namespace, name: 'tiny' }
    const restart = () => agent.command({ name: 'restart', service })
    await restart()
    await agent.until('tiny', ({ message }) => message.includes('started beside it'))
    // Asked again while that one loads, it is one restart.
    await restart()
    const after = await agent.untilReadyAgain('tiny', before.pid)
    await untilGone(before.pid)
    await eventually(async () => (await world.eventReasons('tiny')).includes('Stopped'))
    expect([published.history, agent.starts]).toEqual([[before.port, after.port], 2])
  })

  test('that cannot be started leaves the old server serving, says why, and tries again', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny', { random: () => 0.5 })
    await using published = new PublishedPort(api().connection, world.namespace, 'tiny')
    await published.until(before.port)
    await using requests = askAgainAndAgain(() => published.now)
    await world.applyService('tiny', { script: { crashAtStart: { message: 'error: no such layer' } } })
    const view = await agent.until('tiny', ({ message }) => message.includes('cannot be started'))
    expect(view).toMatchObject({ state: 'ready', reason: 'Serving', pid: before.pid, restarts: 0 })
    expect(view.message).toMatch(
      /^Serving at \S+ The new server cannot be started: .*no such layer.* The previous server keeps serving\. Next attempt at \d\d:\d\d:\d\dZ\.$/s,
    )
    await agent.until('tiny', ({ crash }) => (crash?.failures ?? 0) > 1)
    await eventually(async () => (await world.condition('tiny')) === 'True Serving')
    await eventually(async () => (await world.eventReasons('tiny')).includes('CrashLooping'))

    await world.applyService('tiny', { spec: { contextSize: 4096 } })
    const after = await agent.untilReadyAgain('tiny', before.pid)
    await requests.more()
    expect({ failed: requests.failed, shown: published.history }).toEqual({
      failed: [],
      shown: [before.port, after.port],
    })
  })

  test('that is taken back before the new server answers restarts nothing; one that changes again costs one more start', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny')
    const changeTo = async (contextSize: number, loadMs: number) => {
      const extraArgs = ['--sample-script', JSON.stringify({ loadMs })]
      await world.patchSpec('tiny', { contextSize, extraArgs })
    }
    const loading = () => agent.until('tiny', ({ message }) => message.includes('is loading the model'))
    await changeTo(4096, 600_000)
    await loading()
    await world.admin.patch(
      { apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService', metadata: { name: 'tiny' } },
      { spec: { contextSize: null, extraArgs: null } },
    )
    await agent.until('tiny', ({ message }) => message === `Serving at ${hostIp}:${before.port}.`)
    expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid: before.pid })

    await changeTo(4096, 600_000)
    await loading()
    await changeTo(1024, 100)
    const after = await agent.untilReadyAgain('tiny', before.pid)
    expect(await commandLineOf(after.pid)).toContain('--ctx-size 1024')
    expect(agent.starts).toBe(4)
    await untilGone(before.pid)
    await eventually(() => agent.agent.snapshot().services.every(({ state }) => state === 'ready'))
  })

  test('that does not fit says why the old server goes first', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny', { settings: roomForOne, script: { tokenMs: 200 } })
    const stream = completion(before.port, 10)
    await eventually(() => stream.text.length > 0, { timeoutMs: patienceMs })
    await world.patchSpec('tiny', { contextSize: 4096 })
    const { message } = await agent.until('tiny', 'stopping')
    expect(message).toMatch(
      /^The specification changed: the server is restarted with it; the new one needs 537 MB, 302 MB left in the budget of 839 MB: the old one is stopped first\./,
    )
    expect(await stream.end).toBe('whole')
    const after = await agent.untilReadyAgain('tiny', before.pid)
    expect(await commandLineOf(before.pid)).toBeUndefined()
    expect(after.restarts).toBe(0)
  })

  test('on a port that is for one server only stops the old server first', async () => {
    await using world = await open()
    const { agent: first, port } = await world.serving('scout', { name: 'finder' })
    await first.stop()
    await world.deleteService('scout')
    const { agent, ...before } = await world.serving('tiny', {
      settings: { portRange: { from: port, to: port } },
      script: { tokenMs: 200 },
    })
    const stream = completion(before.port, 10)
    await eventually(() => stream.text.length > 0, { timeoutMs: patienceMs })
    await world.patchSpec('tiny', { contextSize: 4096 })
    const { message } = await agent.until('tiny', 'stopping')
    expect(message).toContain(`; port ${port} is for one server only: the old one is stopped first.`)
    await stream.end
    const after = await agent.untilReadyAgain('tiny', before.pid)
    expect(after.port).toBe(port)
  })

  test.each([
    ['suspended', (world: AgentWorld) => world.patchSpec('tiny', { suspend: true })],
    ['deleted', (world: AgentWorld) => world.deleteService('tiny')],
  ])('ends both servers when the service is %s meanwhile', async (_what, end) => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny')
    await world.patchSpec('tiny', { extraArgs: ['--sample-script', '{"loadMs":600000}'] })
    await agent.until('tiny', ({ message }) => message.includes('is loading the model'))
    const next = agent.log.infos.findLast(({ message }) => message === 'started inference service')?.fields['pid']
    expect([typeof next, next === before.pid]).toEqual(['number', false])
    await end(world)
    await untilGone(before.pid)
    await untilGone(Number(next))
    await eventually(async () => (await world.published('tiny'))?.ready !== true)
  })

  test('goes on with the new server when the old one dies before it answers', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny')
    await world.patchSpec('tiny', { extraArgs: ['--sample-script', '{"loadMs":1500}'] })
    await agent.until('tiny', ({ message }) => message.includes('is loading the model'))
    process.kill(before.pid, 'SIGKILL')
    const after = await agent.untilReadyAgain('tiny', before.pid)
    expect(agent.starts).toBe(2)
    expect(await world.published('tiny')).toEqual({ address: hostIp, port: after.port, ready: true })
  })

  test('is finished by the next agent, whichever moment of it the first one left at', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny')
    await using published = new PublishedPort(api().connection, world.namespace, 'tiny')
    await published.until(before.port)
    await using requests = askAgainAndAgain(() => published.now)
    await world.patchSpec('tiny', { extraArgs: ['--sample-script', '{"loadMs":3000}'] })
    await agent.until('tiny', ({ message }) => message.includes('is loading the model'))
    await agent.leave()
    expect(await commandLineOf(before.pid)).toBeDefined()

    const next = await world.startAgent()
    const after = await next.untilReadyAgain('tiny', before.pid)
    await next.leave()
    const last = await world.startAgent()
    await untilGone(before.pid)
    await requests.more()
    expect(await last.untilReady('tiny')).toMatchObject({ pid: after.pid, port: after.port })
    expect({ failed: requests.failed, shown: published.history, starts: [next.starts, last.starts] }).toEqual({
      failed: [],
      shown: [before.port, after.port],
      starts: [0, 0],
    })
  })
})

describe('the real llama-server', () => {
  const api = useRealApiServer()
  const llamaServer = useLlamaServer()

  test('is swapped under continuous requests without a failed one', async () => {
    await using world = await AgentWorld.open(api().connection)
    const file = join(world.folder, 'slow.gguf')
    await writeLlamaGguf(file, { vocabulary: 32_000, embedding: 256, blocks: 4, context: 4096 })
    await world.applyModel('llama', { source: world.files.serve('/slow.gguf', await readFile(file)).url })
    const agent = await world.startAgent({ llamaServer })
    await world.applyService('llama', { spec: { parallelSlots: 2 } })
    const before = await agent.untilReady('llama')
    await using published = new PublishedPort(api().connection, world.namespace, 'llama')
    await published.until(before.port)
    const requests = askAgainAndAgain(() => published.now)
    const stream = completion(before.port, 150)
    await eventually(() => stream.text.length > 0, { timeoutMs: patienceMs })
    await world.patchSpec('llama', { contextSize: 1024 })
    const after = await agent.untilReadyAgain('llama', before.pid)
    const streamed = await stream.end
    await untilGone(before.pid)
    await requests.more()
    await requests[Symbol.asyncDispose]()
    expect({ failed: requests.failed, streamed, shown: published.history }).toEqual({
      failed: [],
      streamed: 'whole',
      shown: [before.port, after.port],
    })
  })
})

/** A streamed answer, and what came of it so far. */
function completion(port: number, tokens: number) {
  const answer = { text: '', end: Promise.resolve<'whole' | 'cut'>('cut') }
  const read = async (): Promise<'whole' | 'cut'> => {
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [{ role: 'user', content: 'hello' }],
        max_tokens: tokens,
        ignore_eos: true,
        stream: true,
      }),
      signal: AbortSignal.timeout(patienceMs),
    })
    const chunks = response.body?.pipeThrough(new TextDecoderStream()) ?? []
    for await (const chunk of chunks) answer.text += chunk
    return answer.text.trimEnd().endsWith('data: [DONE]') ? 'whole' : 'cut'
  }
  answer.end = read().catch(() => 'cut')
  return answer
}

test('requests that finish are told of once in the condition, however many are left', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection(), { controller: false })
  const { agent, port } = await world.serving('tiny', { script: { tokenMs: 500 } })
  const asking = [6, 10, 14].map(async (tokens) => {
    const body = JSON.stringify({ messages: [], max_tokens: tokens })
    return (await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: 'POST', body })).text()
  })
  await eventually(async () =>
    (await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()).includes('llamacpp:requests_processing 3'),
  )
  await world.patchSpec('tiny', { replicas: 0 })
  await eventually(async () => /[23] requests finishing; .* s\.$/.test((await world.conditionMessage('tiny')) ?? ''), {
    timeoutMs: patienceMs,
    what: 'the sentence in the condition',
  })
  const writes = () => sim.requests.count({ verb: 'patch', resource: 'inferenceservices/status' })
  const before = writes()
  await agent.until('tiny', ({ message }) => message.includes('1 request finishing'))
  await Promise.all(asking.slice(0, 2))
  expect(writes() - before).toBe(0)
  await Promise.all(asking)
  await agent.until('tiny', 'stopped')
  await eventually(async () => (await world.condition('tiny')) === 'False Stopped', { timeoutMs: patienceMs })
})
