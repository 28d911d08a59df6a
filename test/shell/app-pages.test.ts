import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { missingBrowser, startShellBrowser, type ShellBrowser } from '../support/shell-browser.ts'
import { skipWhen } from '../support/skip.ts'

/** Pages of the stand-in are under the privileges that the app gave its scheme, and under the policy that its answers carry. */
skipWhen(missingBrowser())

let browser: ShellBrowser

beforeAll(async () => {
  if (missingBrowser() === undefined) browser = await startShellBrowser()
})
afterAll(() => browser[Symbol.asyncDispose]())
afterEach(() => vi.unstubAllEnvs())

const files: Readonly<Record<string, readonly [type: string, content: string]>> = {
  '/index.html': ['text/html', '<script>document.title = "inline"</script><script src="app.js"></script>'],
  '/app.js': ['text/javascript', 'globalThis.hasRun = true'],
  '/data.txt': ['text/plain', 'data'],
}

type Privileges = Readonly<Record<string, boolean>>

/** What a page of a scheme with these privileges may do; `own`: with those that the app asks for. */
async function inPage(privileges: Privileges | 'own') {
  vi.resetModules()
  const electron = await import('../support/electron-stand-in/electron.ts')
  const { app, protocol } = electron
  const { chromiumVariable, openPage } = await import('../support/electron-stand-in/page.ts')
  const { WebContents } = await import('../support/electron-stand-in/web-contents.ts')
  vi.stubEnv(chromiumVariable, browser.endpoint)
  if (privileges === 'own') {
    vi.doMock('electron', () => electron)
    const { registerAppScheme } = await import('../../src/main/window/app-scheme.ts')
    registerAppScheme()
  } else {
    protocol.registerSchemesAsPrivileged([{ scheme: 'app', privileges }])
  }
  app.becomeReady()
  protocol.handle('app', ({ url }) => {
    const [type, content] = files[new URL(url).pathname] ?? ['text/plain', '']
    return new Response(content, { headers: { 'content-type': type, 'content-security-policy': "script-src 'self'" } })
  })
  const opened = await openPage(new WebContents(), { width: 400, height: 300, preload: '' })
  try {
    await opened.goto('app://metalbar/index.html')
    const page = await browser.window()
    return await page.evaluate(`(async () => ({
      isSecure: isSecureContext,
      runsScripts: globalThis.hasRun === true,
      runsInline: document.title === 'inline',
      hasStorage: (() => { try { return typeof localStorage === 'object' } catch { return false } })(),
      fetches: await fetch('data.txt').then((answer) => answer.ok, () => false),
    }))()`)
  } finally {
    await opened.close()
  }
}

const all = { standard: true, secure: true, supportFetchAPI: true }
const allowed = { isSecure: true, runsScripts: true, runsInline: false, hasStorage: true, fetches: true }

test.for([
  ['of the app itself, all but what its policy forbids', 'own', allowed],
  ['that is not secure, no secure context', { ...all, secure: false }, { ...allowed, isSecure: false }],
  ['without the fetch API, everything else', { ...all, supportFetchAPI: false }, { ...allowed, fetches: false }],
  [
    'that is not standard, neither files of its own nor storage',
    { ...all, standard: false },
    { ...allowed, runsScripts: false, hasStorage: false, fetches: false },
  ],
  ['that is above policies, what they forbid', { ...all, bypassCSP: true }, { ...allowed, runsInline: true }],
] as const)('a page of a scheme %s', async ([, privileges, expected]) => {
  expect(await inPage(privileges)).toEqual(expected)
})
