import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { electronAt } from '../../support/real-electron/find-electron.ts'
import { launchPlan } from '../../support/real-electron/launch-plan.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const start = { folder: '/tests/one', env: { HOME: '/tests/one/home', LANG: 'C.UTF-8' } }

test('Electron alone is told of the hook and of the built app, and a packed one of nothing', () => {
  const alone = launchPlan(start, { path: '/Electron', isPacked: false })
  const packed = launchPlan(start, { path: '/E2E', isPacked: true })
  const root = path.join(import.meta.dirname, '../../..')
  expect(alone.args).toEqual(['-r', path.join(root, 'test/support/real-electron/hook.cjs'), root])
  expect(packed).toEqual({ ...alone, executablePath: '/E2E', args: [] })
})

test('neither sees more of this machine than the test gives it, and both know whose home is the test’s', () => {
  expect(launchPlan(start, { path: '/E2E', isPacked: true }, ':1')).toMatchObject({
    cwd: '/tests/one',
    env: { ...start.env, DISPLAY: ':1', CFFIXED_USER_HOME: '/tests/one/home', METALBAR_TEST_HOME: '/tests/one' },
  })
})

test.each([
  ['of a bundle', 'App.app/Contents/MacOS/App', 'App.app/Contents/Resources/app.asar', true],
  ['of Linux', 'app/app', 'app/resources/app.asar', true],
  [
    'of Electron alone',
    'Electron.app/Contents/MacOS/Electron',
    'Electron.app/Contents/Resources/default_app.asar',
    false,
  ],
])('the program %s is known by the archive that is beside it', async (_, program, archive, isPacked) => {
  await using folder = await temporaryFolder()
  for (const file of [program, archive].map((name) => path.join(folder.dir, name))) {
    await mkdir(path.dirname(file), { recursive: true })
    await writeFile(file, '')
  }
  const named = path.join(folder.dir, program)
  expect(electronAt(named)).toEqual({ path: named, isPacked })
})
