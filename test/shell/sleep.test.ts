import { describe, expect, test } from 'vitest'
import { endlessAnswer } from '../support/endless-answer.ts'
import { eventually } from '../support/eventually.ts'
import type { SampleScript } from '../support/sample-servers/sample.ts'
import { servingWorld } from '../support/serving-world.ts'
import { ShellApp } from '../support/shell-app.ts'
import { SliceWatch } from '../support/slice-watch.ts'

const announce = (app: ShellApp, event: 'suspend' | 'resume') => app.ask({ do: 'power', event })

/** The app with its agent, and what pods are told from before anything is served. */
async function node(preferences: Readonly<Record<string, unknown>> = {}) {
  await using stack = new AsyncDisposableStack()
  const world = stack.use(await servingWorld())
  const slices = stack.use(new SliceWatch(world.sim.connection(), 'default'))
  const app = stack.use(
    await ShellApp.start({
      kubeconfig: world.sim.kubeconfig(),
      preferences: { ...world.preferences, ...preferences },
    }),
  )
  await app.icon('idle')
  const serve = async (name: string, script: SampleScript = {}) => {
    world.apply(name, script)
    await slices.until(name, 'ready')
    const { pid = 0, port = 0 } = await app.service(name)
    return { pid, port }
  }
  /** That the agent has said this so many times. */
  const logged = (message: string, times = 1) =>
    eventually(async () => (await app.messages()).filter((one) => one === message).length >= times, {
      what: `${times} × ${message}`,
    })
  /** What pods were told since it first served. */
  const told = (name: string) => {
    const history = slices.history(name)
    return history.slice(history.indexOf('ready'))
  }
  const owned = stack.move()
  return { world, slices, app, serve, logged, told, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

describe.concurrent('a machine that sleeps', () => {
  test('is sent no requests from before that on; what runs is not cut, and each server is published again when it has answered', async () => {
    await using shown = await node()
    const { app, slices, serve, logged, told } = shown
    const [busy, silent] = [await serve('busy', { tokenMs: 50 }), await serve('silent')]
    await using answer = await endlessAnswer(busy.port)
    await answer.goesOn()
    await announce(app, 'suspend')
    await Promise.all(['busy', 'silent'].map((name) => slices.until(name, 'not ready')))
    // All that is done for the sleep is done.
    await logged('about to sleep')
    await answer.goesOn()
    process.kill(silent.pid, 'SIGSTOP')
    try {
      await announce(app, 'resume')
      await slices.until('busy', 'ready')
      await answer.goesOn()
      expect([told('busy'), told('silent')]).toEqual([
        ['ready', 'not ready', 'ready'],
        ['ready', 'not ready'],
      ])
    } finally {
      process.kill(silent.pid, 'SIGCONT')
    }
    await slices.until('silent', 'ready')
    expect([await app.serverOf('busy'), await app.serverOf('silent')]).toEqual([busy.pid, silent.pid])
  })

  test('may say so twice, and that it woke twice or without a sleep: each service is withdrawn and published once', async () => {
    await using shown = await node()
    const { app, slices, serve, logged, told } = shown
    const { pid } = await serve('tiny')
    await announce(app, 'resume')
    await logged('awake')
    for (const times of [1, 2]) {
      await announce(app, 'suspend')
      await logged('about to sleep', times)
    }
    expect(told('tiny')).toEqual(['ready', 'not ready'])
    await Promise.all([announce(app, 'resume'), announce(app, 'resume')])
    await logged('awake', 3)
    await slices.until('tiny', 'ready')
    // What came of all that is over when another sleep is.
    await announce(app, 'suspend')
    await slices.until('tiny', 'not ready')
    expect(told('tiny')).toEqual(['ready', 'not ready', 'ready', 'not ready'])
    expect(await app.serverOf('tiny')).toBe(pid)
  })

  test('while a model loads lets it load, and publishes it not before it is awake', async () => {
    await using shown = await node({ logLevel: 'debug' })
    const { world, app, slices, logged } = shown
    world.apply('tiny', { loadMs: 3_000 })
    const pid = await eventually(() => app.serverOf('tiny'), { what: 'the process' })
    // It cannot be loaded before the sleep is announced, however long that takes here.
    process.kill(pid, 'SIGSTOP')
    try {
      await announce(app, 'suspend')
      await logged('about to sleep')
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await logged('server is ready')
    // Comes after whatever was about to be published.
    await announce(app, 'suspend')
    await logged('about to sleep', 2)
    expect([slices.history('tiny').includes('ready'), (await app.service('tiny')).reason]).toEqual([false, 'Asleep'])
    await announce(app, 'resume')
    await slices.until('tiny', 'ready')
    expect(await app.serverOf('tiny')).toBe(pid)
  })
})
