import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { ShellApp } from '../support/shell-app.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { infoOf } from '../support/electron-stand-in/bundle.ts'
import { act, makeBundle } from '../support/update-world.ts'

const question = (app: ShellApp) => app.ask({ do: 'question' })

async function downloaded(dir: string) {
  const bundle = await makeBundle(path.join(dir, 'AppTranslocation/1/d'), '1.2.3')
  const applications = path.join(dir, 'Applications')
  const env = {
    ELECTRON_STAND_IN_INSTALLED: '1',
    ELECTRON_STAND_IN_BUNDLE: bundle,
    ELECTRON_STAND_IN_APPLICATIONS: applications,
  }
  return { applications, env }
}

test('an app that runs where it was downloaded offers to move, and until then neither login item, update nor command', async () => {
  await using folder = await temporaryFolder()
  const { env, applications } = await downloaded(folder.dir)
  await using app = await ShellApp.start({ folder: folder.dir, env, preferences: {} })
  await app.press('Not now')
  const menu = JSON.stringify(await app.menu())
  expect({
    offered: ['Open at login', 'Check for updates', 'command metal-agent'].filter((label) => menu.includes(label)),
    refusal: await act(app, 'look'),
    again: await question(app),
  }).toEqual({
    offered: [],
    refusal: expect.stringContaining('Move the app to Applications') as unknown,
    again: undefined,
  })
  await app.choose('Move to Applications…')
  expect([await app.exited, infoOf(path.join(applications, 'Metalbar.app')).CFBundleShortVersionString]).toEqual([
    0,
    '1.2.3',
  ])
})

test('an older app in Applications is replaced only when that is wanted, and goes to the Trash', async () => {
  await using folder = await temporaryFolder()
  const { env, applications } = await downloaded(folder.dir)
  const there = await makeBundle(applications, '1.0.0')
  await using app = await ShellApp.start({ folder: folder.dir, env, preferences: {} })
  await app.press('Move to Applications')
  await app.press('Cancel')
  const kept = infoOf(there).CFBundleShortVersionString
  await app.choose('Move to Applications…')
  await app.press('Replace it')
  await app.exited
  await eventually(() => existsSync(path.join(applications, '.Trash/Metalbar.app')))
  expect([kept, infoOf(there).CFBundleShortVersionString]).toEqual(['1.0.0', '1.2.3'])
})
