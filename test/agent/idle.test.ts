import { describe, expect, test } from 'vitest'
import { AgentWorld, commandLineOf, inferenceService, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'

/** A "minute" long enough for a loaded machine to send requests in between. */
const idleMinuteMs = 1_500

describe('a service with metalbar.dev/idle-minutes', () => {
  const api = useRealApiServer()
  const open = () => AgentWorld.open(api().connection)
  const say = (world: AgentWorld, minutes: string | null) =>
    world.admin.patch(inferenceService('tiny'), { metadata: { annotations: { 'metalbar.dev/idle-minutes': minutes } } })
  const ask = async (port: number, tokens = 1) => {
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ max_tokens: tokens }),
    })
    return response.ok
  }

  test('leaves memory when nobody asked for so long, says so everywhere, keeps its claim, and comes back when it is started', async () => {
    await using world = await open()
    const agent = await world.startAgent({ idleMinuteMs })
    await world.apply('tiny')
    await say(world, '2')
    const { pid } = await agent.untilReady('tiny')
    const view = await agent.until('tiny', 'stopped')
    expect(view).toMatchObject({
      reason: 'Idle',
      message:
        'Unloaded after 2 minutes without a request (metalbar.dev/idle-minutes). It serves again as soon as it is started.',
      restarts: 0,
    })
    expect(await commandLineOf(pid)).toBeUndefined()
    expect(await world.published('tiny')).toMatchObject({ ready: false })
    expect((await world.slice('tiny'))?.metadata['annotations']).toMatchObject({
      'metalbar.dev/claim': expect.stringContaining('node') as string,
    })
    await eventually(async () => (await world.condition('tiny')) === 'False Idle')

    const service = { namespace: world.namespace, name: 'tiny' }
    const answer = await agent.command({ name: 'start', service })
    expect(answer).toEqual({ outcome: 'done', message: `${world.namespace}/tiny is started on this machine.` })
    const back = await agent.untilReadyAgain('tiny', pid)
    expect(await world.published('tiny')).toMatchObject({ port: back.port, ready: true })
    await eventually(async () => (await world.condition('tiny')) === 'True Serving')
  })

  test('stays while it is asked now and then, and while one long answer takes its time', async () => {
    await using world = await open()
    const agent = await world.startAgent({ idleMinuteMs })
    await world.apply('tiny', { script: { tokenMs: 100 } })
    await say(world, '1')
    const { pid, port } = await agent.untilReady('tiny')
    const seen = new Set<string>()
    const unsubscribe = agent.agent.subscribe(() => seen.add(agent.view('tiny')?.state ?? ''))
    expect(await ask(port, 50)).toBe(true)
    const until = performance.now() + 4 * idleMinuteMs
    while (performance.now() < until) expect(await ask(port, 3)).toBe(true)
    unsubscribe()
    expect([...seen].filter((state) => state !== 'ready')).toEqual([])
    await agent.until('tiny', ({ reason }) => reason === 'Idle')
    await untilGone(pid)
  })

  test('is still out of memory after a restart of the agent, and serves when the annotation goes', async () => {
    await using world = await open()
    const first = await world.startAgent({ idleMinuteMs })
    await world.apply('tiny')
    await say(world, '1')
    await first.until('tiny', ({ reason }) => reason === 'Idle')
    await eventually(async () => (await world.condition('tiny')) === 'False Idle')
    await first.leave()
    const next = await world.startAgent({ idleMinuteMs })
    await next.until('tiny', ({ reason }) => reason === 'Idle')
    expect(next.starts).toBe(0)
    await say(world, null)
    await next.untilReady('tiny')
  })

  test('with a value that is none serves on, and says what is wrong with it', async () => {
    await using world = await open()
    const agent = await world.startAgent({ idleMinuteMs })
    await world.apply('tiny')
    await say(world, 'ten')
    const { message } = await agent.until('tiny', (view) => view.message.includes('idle-minutes'))
    expect(message).toContain(
      'The annotation metalbar.dev/idle-minutes says "ten" and has no effect: it takes whole minutes from 1 to 10080.',
    )
    expect(agent.view('tiny')).toMatchObject({ state: 'ready' })
  })
})
