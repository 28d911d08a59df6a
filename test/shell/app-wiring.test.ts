import { mkdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { servingWorld } from '../support/serving-world.ts'
import { ShellApp } from '../support/shell-app.ts'

/** What the parts of the app are connected to, which none of them can show alone. */

test('the link that starts the app turns its window', async () => {
  await using app = await ShellApp.start({
    preferences: {},
    env: { ELECTRON_STAND_IN_LINK: 'metalbar://settings' },
  })
  await eventually(async () => (await app.look()).windows.length === 1, { what: 'the window' })
  expect((await app.log()).includes('a link that opens nothing')).toBe(false)
})

test('all of the app starts: it has no icon in the Dock, is not slowed while nobody looks at it, and hears of the plug', async () => {
  await using app = await ShellApp.start({ preferences: {} })
  await app.icon('disconnected', 'kubeconfig')
  // Where something does not start, the app says so and ends when that was read.
  expect([await app.ask({ do: 'question' }), (await app.look()).isInDock]).toEqual([undefined, false])
  expect(await app.ask({ do: 'isUserDefault', key: 'NSAppSleepDisabled' })).toBe(true)
  for (const event of ['on-battery', 'on-ac'] as const) await app.ask({ do: 'power', event })
})

test('the app quits with its window open, which is hidden when it is closed and then holds up nothing', async () => {
  await using app = await ShellApp.start({ preferences: {} })
  await app.icon('disconnected', 'kubeconfig')
  await app.ask({ do: 'activate' })
  await eventually(async () => (await app.look()).windows[0]?.isVisible, { what: 'the window' })
  await app.ask({ do: 'closeWindow' })
  await app.ask({ do: 'activate' })
  expect(await app.quit()).toBe(0)
})

test('its log is for its user alone, says as much as is asked for while it runs, and is in the diagnostics', async () => {
  await using world = await servingWorld()
  await using app = await ShellApp.start({ kubeconfig: world.sim.kubeconfig(), preferences: world.preferences })
  await app.icon('idle')
  const isDetailed = async () => (await app.log()).includes('"level":"debug"')
  const before = await isDetailed()
  await using agent = await app.agent()
  await agent.command({ name: 'updateSettings', settings: { logLevel: 'debug' } })
  world.apply('tiny')
  await eventually(isDetailed, { what: 'more in the log' })
  expect([before, (await stat(path.join(app.stateDir, 'metalbar.log'))).mode & 0o777]).toEqual([false, 0o600])
  const { files } = await agent.query({ name: 'diagnostics' })
  expect(files.find(({ name }) => name === 'agent.log')?.text).toContain('"level":"debug"')
})

test('a file that the window saves goes into the Downloads folder, beside what has its name, and is shown there', async () => {
  await using app = await ShellApp.start({ preferences: {} })
  await app.icon('disconnected', 'kubeconfig')
  const downloads = path.join(app.folder, 'home/Downloads')
  await mkdir(downloads)
  for (const text of ['first', 'second']) await app.ask({ do: 'download', filename: 'report.zip', text })
  const files = ['report.zip', 'report 2.zip'].map((name) => path.join(downloads, name))
  await eventually(async () => ((await app.ask({ do: 'opened' })) as string[]).length === 2)
  expect([
    await app.ask({ do: 'opened' }),
    ...(await Promise.all(files.map((file) => readFile(file, 'utf8')))),
  ]).toEqual([files, 'first', 'second'])
})

test('a text field has the menu that text fields have, marked text can be copied, and the rest of the page has none', async () => {
  await using app = await ShellApp.start({ preferences: {} })
  await app.icon('disconnected', 'kubeconfig')
  await app.ask({ do: 'activate' })
  const menuOf = (isEditable: boolean, selectionText: string) =>
    app.ask({ do: 'contextMenu', isEditable, selectionText })
  expect([await menuOf(true, ''), await menuOf(false, 'a line'), await menuOf(false, '')]).toEqual([
    ['cut', 'copy', 'paste', 'selectAll'],
    ['copy'],
    undefined,
  ])
})
