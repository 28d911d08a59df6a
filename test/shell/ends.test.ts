import { describe, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import type { SampleScript } from '../support/sample-servers/sample.ts'
import { servingWorld } from '../support/serving-world.ts'
import { lives, ShellApp } from '../support/shell-app.ts'

/** What loginwindow and a person wait for without asking again. */
const shutdownLimitMs = 15_000

const tokenMs = 20

async function serving(script: SampleScript = { tokenMs }) {
  await using stack = new AsyncDisposableStack()
  const world = stack.use(await servingWorld())
  const app = stack.use(await ShellApp.start({ kubeconfig: world.sim.kubeconfig(), preferences: world.preferences }))
  const pid = await app.serve(world, 'tiny', script)
  const owned = stack.move()
  return { world, app, pid, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

/** A completion that is under way when this resolves. */
async function request(app: ShellApp, tokens: number) {
  const { port = 0 } = await app.service('tiny')
  const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: tokens, stream: true }),
  })
  const answer = response.text().then(
    (text) => (text.includes('[DONE]') ? 'answered' : 'cut'),
    () => 'cut',
  )
  return { answer }
}

describe.concurrent('with a request under way', () => {
  test('Drain and stop lets it finish, and stops its server then', async () => {
    await using shown = await serving()
    const { app, pid } = shown
    const { answer } = await request(app, 100)
    await app.choose('Quit…')
    await app.press('Drain and stop')
    expect([await answer, await app.exited, lives(pid)]).toEqual(['answered', 0, false])
  })

  test('Keep in menu bar leaves it and its server alone', async () => {
    await using shown = await serving()
    const { app, pid, world } = shown
    const { answer } = await request(app, 50)
    await app.choose('Quit…')
    await app.press('Keep in menu bar')
    expect([await answer, lives(pid), world.published('tiny')]).toEqual(['answered', true, '192.0.2.10'])
  })

  test('signals that follow one another do not cut it', async () => {
    await using shown = await serving()
    const { app, pid, world } = shown
    const { answer } = await request(app, 100)
    app.signal('SIGINT')
    await eventually(() => world.published('tiny') === undefined, { what: 'the withdrawal' })
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGTERM', 'SIGHUP', 'SIGHUP'] as const) app.signal(signal)
    expect([await answer, await app.exited, lives(pid)]).toEqual(['answered', 0, false])
  })

  test.each([
    ['at once', []],
    // By then the time is over in which requests may finish.
    ['only after the withdrawal was given up', ['update', 'patch']],
  ])(
    'a shutdown of the system is answered in time, although it would take for ever, where the cluster takes writes %s',
    async (_, refused) => {
      await using shown = await serving()
      const { app, pid, world } = shown
      const { answer } = await request(app, 100_000)
      const began = performance.now()
      const faults = refused.map((verb) => {
        const on = { verb, resource: 'endpointslices' }
        return world.sim.faults.add({ on, times: Infinity, fault: { kind: 'status', code: 503 } })
      })
      await app.ask({ do: 'power', event: 'shutdown' })
      await Promise.race([eventually(() => !lives(pid), { what: 'the end of the server' }), app.exited])
      for (const fault of faults) fault.remove()
      const code = await app.exited
      const tookMs = performance.now() - began
      expect([await answer, code, lives(pid), world.published('tiny'), tookMs < shutdownLimitMs]).toEqual([
        'cut',
        0,
        false,
        undefined,
        true,
      ])
    },
  )
})
