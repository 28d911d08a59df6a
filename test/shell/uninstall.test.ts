import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { agentBesideApp } from '../support/agent-beside-app.ts'
import { eventually } from '../support/eventually.ts'
import { servingWorld } from '../support/serving-world.ts'
import { lives, ShellApp } from '../support/shell-app.ts'

const asks = (app: ShellApp, verb: string, content?: unknown) =>
  app.ask({ do: 'forge', channel: 'metalbar', origin: 'app://metalbar', frame: 'main', content: { verb, content } })

const listed = z.object({
  ok: z.literal(true),
  value: z.object({ serving: z.array(z.string()), traces: z.array(z.object({ kind: z.string() })) }),
})

test('the app lists what it wrote, removes what is chosen after a yes, ends, and what it had open goes after it', async () => {
  await using world = await servingWorld()
  await using app = await ShellApp.start({ kubeconfig: world.sim.kubeconfig(), preferences: world.preferences })
  world.apply('tiny')
  await app.icon('serving')
  const { value } = listed.parse(await asks(app, 'traces'))
  expect(value.serving).toEqual(['default/tiny'])
  const kinds = value.traces.map(({ kind }) => kind)
  expect(kinds).toEqual(expect.arrayContaining(['cluster', 'appData', 'logs', 'settings', 'state']))
  expect(await asks(app, 'uninstall', ['everything'])).toMatchObject({ ok: false })

  const declined = asks(app, 'uninstall', kinds)
  await app.press('Cancel')
  expect(await declined).toEqual({ ok: true })
  expect(await readdir(app.stateDir)).toContain('node.json')

  const pid = await app.serverOf('tiny')
  // The app ends before it can answer.
  asks(app, 'uninstall', kinds).catch(() => undefined)
  await app.press('Uninstall')
  await app.press('Quit')
  expect(await app.exited).toBe(0)
  await eventually(() => !existsSync(app.stateDir), { what: 'the state folder gone after the app' })
  expect(existsSync(`/proc/${pid}`)).toBe(false)
  expect(world.sim.get({ resource: 'endpointslices', name: 'tiny' })).toBeUndefined()
  expect(existsSync(path.join(app.folder, 'kubeconfig'))).toBe(true)
})

test('where another program runs the agent, that ends first, and what it served with it', async () => {
  await using world = await servingWorld()
  await using beside = await agentBesideApp(world)
  const { agent, folder } = beside
  await using app = await ShellApp.start({ folder })
  const pid = await app.serve(world, 'tiny')
  asks(app, 'uninstall', ['state']).catch(() => undefined)
  await app.press('Uninstall')
  await app.press('Quit')
  const code = await app.exited
  await eventually(() => agent.exit !== undefined, { what: 'the end of the other agent' })
  expect([code, lives(pid)]).toEqual([0, false])
})
