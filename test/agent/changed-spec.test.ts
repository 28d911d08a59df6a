import { describe, expect, test } from 'vitest'
import { AgentWorld, commandLineOf, hostIp, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { PublishedPort } from '../support/published-port.ts'
import { patienceMs } from '../support/running-agent.ts'
import { streamedAnswer } from '../support/streamed-answer.ts'

describe('a changed specification', () => {
  const api = useRealApiServer()
  const open = () => AgentWorld.open(api().connection)

  test('is said beforehand, withdraws the address, lets requests in flight finish, and then publishes the new server', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny', { script: { tokenMs: 100 } })
    await using published = new PublishedPort(api().connection, world.namespace, 'tiny')
    await published.until(before.port)
    const stream = streamedAnswer(before.port, 60)
    await eventually(() => stream.text.length > 0, { timeoutMs: patienceMs })
    const said = new Set<string>()

    await world.patchSpec('tiny', { contextSize: 4096 })
    await eventually(
      async () => {
        const message = (await world.conditionMessage('tiny')) ?? ''
        if (message.startsWith('Serving at')) said.add(message)
        return published.now === undefined
      },
      { timeoutMs: patienceMs },
    )
    expect(await commandLineOf(before.pid)).toBeDefined()
    expect(await stream.end).toBe('whole')
    const after = await agent.untilReadyAgain('tiny', before.pid)
    await published.until(after.port)
    expect([...said].at(-1)).toContain(
      'The specification changed: the server is restarted with it, and its address pauses until the new one answers.',
    )
    expect({
      shown: published.history,
      starts: agent.starts,
      restarts: after.restarts,
      old: await commandLineOf(before.pid),
      commandLine: await commandLineOf(after.pid),
    }).toEqual({
      shown: [before.port, undefined, after.port],
      starts: 2,
      restarts: 0,
      old: undefined,
      commandLine: expect.stringContaining('--ctx-size 4096') as string,
    })
    expect((await world.endpoints('tiny'))?.['subsets']).toMatchObject([{ ports: [{ port: after.port }] }])
  })

  test('that a person asks for by Restart is the same, and asked for again before the new server is there it is one restart', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny', { script: { loadMs: 300 } })
    const service = { namespace: world.namespace, name: 'tiny' }
    const restart = () => agent.command({ name: 'restart', service })
    await restart()
    await agent.until('tiny', ({ message }) => message.includes('is loading the model'))
    await restart()
    const after = await agent.untilReadyAgain('tiny', before.pid)
    await untilGone(before.pid)
    await eventually(async () => (await world.published('tiny'))?.port === after.port)
    expect([agent.starts, await world.eventReasons('tiny')]).toEqual([2, expect.arrayContaining(['Stopped'])])
  })

  test('that is taken back while the new server loads costs one more start', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny')
    await world.patchSpec('tiny', { contextSize: 4096, extraArgs: ['--sample-script', '{"loadMs":600000}'] })
    await agent.until('tiny', ({ message }) => message.includes('is loading the model'))
    await world.admin.patch(
      { apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService', metadata: { name: 'tiny' } },
      { spec: { contextSize: null, extraArgs: null } },
    )
    const after = await agent.untilReadyAgain('tiny', before.pid)
    expect(agent.starts).toBe(3)
    expect(await world.published('tiny')).toEqual({ address: hostIp, port: after.port, ready: true })
  })

  test.each([
    ['suspended', (world: AgentWorld) => world.patchSpec('tiny', { suspend: true })],
    ['deleted', (world: AgentWorld) => world.deleteService('tiny')],
  ])('leaves nothing running when the service is %s meanwhile', async (_what, end) => {
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

  test('is finished by the next agent, whichever moment of it the first one left at', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny')
    await world.patchSpec('tiny', { extraArgs: ['--sample-script', '{"loadMs":3000}'] })
    await agent.until('tiny', ({ message }) => message.includes('is loading the model'))
    await agent.leave()
    const next = await world.startAgent()
    const after = await next.untilReadyAgain('tiny', before.pid)
    await next.leave()
    const last = await world.startAgent()
    expect(await last.untilReady('tiny')).toMatchObject({ pid: after.pid, port: after.port })
    expect([next.starts, last.starts]).toEqual([0, 0])
  })
})

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
