import path from 'node:path'
import { expect, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { eventually } from '../support/eventually.ts'
import { missingBrowser } from '../support/shell-browser.ts'
import { ShellApp } from '../support/shell-app.ts'
import { skipWhen } from '../support/skip.ts'

/** What drives Electron in the project `electron`, on the stand-in as a program of its own: it is known to work before it is tried on Electron. */
skipWhen(missingBrowser())

const electron = path.join(import.meta.dirname, '../support/electron-stand-in/executable.ts')

test('what drives Electron sees the icon and its menu, chooses, presses keys, crashes a page, and asks as pages do', async () => {
  await using app = await ShellApp.start({ preferences: {}, electron })
  const { isTemplate, toolTip } = await app.icon('disconnected', 'kubeconfig')
  const seen = async () => (await app.look()).windows.map(({ isVisible, hasFrame }) => [isVisible, hasFrame])
  const until = (windows: boolean[][]) =>
    eventually(async () => JSON.stringify(await seen()) === JSON.stringify(windows), { what: JSON.stringify(windows) })
  expect([isTemplate, toolTip.split('\n')[1], await seen()]).toEqual([true, 'Serving no models', []])
  expect(await app.menu()).toEqual(expect.arrayContaining(['Open Metalbar', 'Settings…', 'Quit…']))
  await app.choose('Settings…')
  await until([[true, false]])
  expect(await app.ask({ do: 'keys', accelerator: 'Command+W' })).toBe(true)
  await until([[false, false]])
  await app.ask({ do: 'clickIcon' })
  await until([[true, false]])
  await app.ask({ do: 'crashPage' })
  await until([[true, false]])
  const asks = (channel: string, origin: string) => app.ask({ do: 'forge', channel, origin, frame: 'main' })
  expect([
    await asks('agent:snapshot', 'app://metalbar'),
    await asks('agent:snapshot', 'https://example.com'),
    await app.ask({ do: 'request', url: 'app://metalbar/no-such-file', method: 'GET' }),
    await app.ask({ do: 'permissions', origin: 'app://metalbar', permission: 'clipboard-sanitized-write' }),
    await app.ask({ do: 'permissions', origin: 'https://example.com', permission: 'media' }),
  ]).toMatchObject([
    { ok: true, value: { protocol: 1 } },
    { ok: false, failure: { code: 'refused' } },
    { status: 404, body: '' },
    { asked: true, checked: true },
    { asked: false, checked: false },
  ])
  await expect(asks('__ELECTRON_LOG__', 'app://metalbar')).rejects.toThrow('No handler registered')
  await app.ask({ do: 'openLink', link: 'metalbar://models' })
  await eventually(async () => (await app.look()).windows[0]?.url.includes('#models'))
  await app.ask({ do: 'helperGone', type: 'GPU', reason: 'crashed' })
  await eventually(async () => (await app.log()).includes('a helper process of the app ended'))
  await app.ask({ do: 'chooseFile', file: '/home/me/.kube/config' })
  expect(
    await app.ask({
      do: 'forge',
      channel: 'app:chooseFile',
      content: 'kubeconfig',
      origin: 'app://metalbar',
      frame: 'main',
    }),
  ).toEqual({ ok: true, value: '/home/me/.kube/config' })
  await expect(app.ask({ do: 'occlude', isOccluded: true })).rejects.toThrow('Only the stand-in')
  await expect(app.choose('No such entry')).rejects.toThrow('There is no entry No such entry')
  expect(await app.quit()).toBe(0)
})

test.for([
  { how: 'killed', signal: 'SIGKILL' },
  { how: 'quit', signal: undefined },
] as const)('$how, it leaves no browser behind', async ({ signal }) => {
  await using app = await ShellApp.start({ preferences: {}, electron })
  await app.icon('disconnected', 'kubeconfig')
  const own = `--user-data-dir=${app.folder}`
  const browsers = async () => (await hostPlatform().processes()).filter(({ commandLine }) => commandLine.includes(own))
  expect(await browsers()).not.toEqual([])
  if (signal === undefined) await app.quit()
  else app.signal(signal)
  await app.exited
  await eventually(async () => (await browsers()).length === 0, { what: 'the browser gone' })
})
