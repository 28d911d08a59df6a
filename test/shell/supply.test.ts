import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { SettingsPatch } from '../../src/contract/settings.ts'
import { endlessAnswer } from '../support/endless-answer.ts'
import { eventually } from '../support/eventually.ts'
import { servingWorld } from '../support/serving-world.ts'
import { ShellApp } from '../support/shell-app.ts'

test('the app keeps the machine awake while a model loads or a request runs, as the sleep policy says, and lets it go after it', async () => {
  await using world = await servingWorld()
  await using app = await ShellApp.start({ kubeconfig: world.sim.kubeconfig(), preferences: world.preferences })
  await app.icon('idle')
  /** As the window does. */
  const set = async (settings: SettingsPatch) => {
    const content = { requestId: randomUUID(), command: { name: 'updateSettings', settings } }
    const own = { origin: 'app://metalbar', frame: 'main' } as const
    const answer = await app.ask({ do: 'forge', channel: 'metalbar', content: { verb: 'command', content }, ...own })
    expect(answer).toMatchObject({ ok: true, value: { outcome: 'done' } })
  }
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
    await set({ sleepPolicy: 'never' })
    await untilFree('where a person wants none')
    await set({ sleepPolicy: 'while-serving' })
    await untilHeld('where a person wants it again')
    await answer.goesOn()
  }
  await untilFree('when no request runs')
  await set({ sleepPolicy: 'while-loaded' })
  await untilHeld('while a model is in memory')
})
