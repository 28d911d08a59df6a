import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { SettingsPatch } from '../../src/contract/settings.ts'
import { endlessAnswer } from '../support/endless-answer.ts'
import { eventually } from '../support/eventually.ts'
import { forgedSupply } from '../support/power/forged-supply.ts'
import { servingWorld } from '../support/serving-world.ts'
import { ShellApp } from '../support/shell-app.ts'
import { skipWhen } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

skipWhen(process.platform === 'linux' ? undefined : 'what the machine runs on can be forged on Linux alone')

/** The app on a machine whose plug can be pulled. */
async function laptop() {
  await using stack = new AsyncDisposableStack()
  const world = stack.use(await servingWorld())
  const { dir } = stack.use(await temporaryFolder())
  const { runOn, env } = await forgedSupply(dir)
  const app = stack.use(
    await ShellApp.start({ kubeconfig: world.sim.kubeconfig(), preferences: world.preferences, env }),
  )
  await app.icon('idle')
  const plug = async (source: 'mains' | 'battery') => {
    await runOn(source)
    await app.ask({ do: 'power', event: source === 'mains' ? 'on-ac' : 'on-battery' })
  }
  /** As the window does. */
  const set = async (settings: SettingsPatch) => {
    const content = { requestId: randomUUID(), command: { name: 'updateSettings', settings } }
    const own = { origin: 'app://metalbar', frame: 'main' } as const
    const answer = await app.ask({ do: 'forge', channel: 'agent:command', content, ...own })
    expect(answer).toMatchObject({ ok: true, value: { outcome: 'done' } })
  }
  const owned = stack.move()
  return { world, app, plug, set, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

describe.concurrent('a laptop', () => {
  test('is kept awake while a model loads or a request runs, as the sleep policy and the plug allow, and let go after it', async () => {
    await using shown = await laptop()
    const { world, app, plug, set } = shown
    const blockers = () => app.ask({ do: 'blockers' })
    const untilHeld = (what: string) =>
      eventually(async () => JSON.stringify(await blockers()) === '["prevent-app-suspension"]', {
        what: `a hold ${what}`,
      })
    const untilFree = (what: string) =>
      eventually(async () => JSON.stringify(await blockers()) === '[]', { what: `no hold ${what}` })
    expect(await blockers()).toEqual([])
    world.apply('tiny', { loadMs: 3_000, tokenMs: 50 })
    await untilHeld('while a model loads')
    await app.icon('serving')
    const { port = 0 } = await app.service('tiny')
    {
      await using answer = await endlessAnswer(port)
      await answer.goesOn()
      await untilHeld('while a request runs')
      await plug('battery')
      await untilFree('on battery')
      await set({ sleepPolicy: 'while-serving' })
      await untilHeld('on battery, where a person wants that')
      await set({ sleepPolicy: 'never' })
      await untilFree('where a person wants none')
      await plug('mains')
      await set({ sleepPolicy: 'on-mains' })
      await untilHeld('on mains')
      await answer.goesOn()
    }
    await untilFree('when no request runs')
  })

  test('that is set to pause on battery is sent no requests while the plug is pulled, and says why in its menu', async () => {
    await using shown = await laptop()
    const { world, app, plug, set } = shown
    const why = 'This machine is on battery and is set to pause on battery'
    const saysWhy = async () => JSON.stringify(await app.menu()).includes(why)
    const pid = await app.serve(world, 'tiny')
    await set({ pauseOnBattery: true })
    expect([await saysWhy(), world.published('tiny')]).toEqual([false, '192.0.2.10'])
    await plug('battery')
    await eventually(() => world.published('tiny') === undefined, { what: 'the withdrawal' })
    await eventually(saysWhy, { what: 'the menu to say why' })
    await plug('mains')
    await eventually(() => world.published('tiny') !== undefined, { what: 'the publication' })
    await eventually(async () => !(await saysWhy()), { what: 'the menu not to say so any more' })
    expect(await app.serverOf('tiny')).toBe(pid)
  })
})
