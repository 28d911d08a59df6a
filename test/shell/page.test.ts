import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { verbs } from '../../src/contract/app-bridge.ts'
import type { ControlRequest } from '../support/electron-stand-in/control.ts'
import { ShellApp } from '../support/shell-app.ts'

/** Requests that only the window may make; made without a window, as code in the app's process can. */
let app: ShellApp
let started: ShellApp | undefined

// Before each test and not before all of them, so that none is started where they are skipped.
beforeEach(async () => {
  started ??= await ShellApp.start({ preferences: {} })
  app = started
  await app.icon('disconnected', 'kubeconfig')
})
afterAll(() => started?.[Symbol.asyncDispose]())

const ours = {
  do: 'forge',
  channel: 'metalbar',
  content: { verb: 'snapshot' },
  origin: 'app://metalbar',
  frame: 'main',
} as const
const refusal = {
  ok: false,
  failure: { code: 'refused', message: 'Only the window of this app may ask the agent.' },
}

describe('over IPC', () => {
  test('the window gets the snapshot', async () => {
    expect(await app.ask(ours)).toMatchObject({ ok: true, value: { protocol: 1, services: [] } })
  })

  test.for<[string, Partial<Extract<ControlRequest, { do: 'forge' }>>]>([
    ['a page of the web', { origin: 'https://example.com' }],
    ['a page whose scheme only begins like ours', { origin: 'app://metalbar.example.com' }],
    ['a file', { origin: 'file://' }],
    ['a frame inside the window', { frame: 'sub' }],
    ['a frame that is gone', { frame: 'gone' }],
  ])('%s is refused, whatever it asks', async ([, forged]) => {
    const names = Object.keys(verbs)
    const answers = names.map((verb) => app.ask({ ...ours, ...forged, content: { verb } }))
    expect(await Promise.all(answers)).toEqual(names.map(() => refusal))
  })

  test.for<[verb: string, content: unknown]>([
    ['format', undefined],
    ['toString', undefined],
    ['snapshot', { any: 'thing' }],
    ['command', undefined],
    ['command', { requestId: 'no uuid', command: { name: 'resync' } }],
    ['command', { requestId: crypto.randomUUID(), command: { name: 'rm -rf' } }],
    ['query', { name: 'log', service: { namespace: '', name: '../..' } }],
    ['listen', { id: '', request: { name: 'snapshot' } }],
    ['listen', { id: '1', request: { name: 'kubeconfig' } }],
    ['leave', ['1']],
    ['hide', { any: 'thing' }],
    ['tearOff', undefined],
    ['tearOff', { view: 'format' }],
    ['tearOff', { service: 'x'.repeat(201) }],
    ['tearOff', { view: 'settings', field: 'hostAddress' }],
  ])('%s with %o is not understood, in a sentence', async ([verb, content]) => {
    expect(await app.ask({ ...ours, content: { verb, content } })).toEqual({
      ok: false,
      failure: {
        code: 'misunderstood',
        message: expect.stringMatching(/^The app did not understand its window: /) as unknown,
      },
    })
    expect((await app.look()).windows).toEqual([])
  })

  test('a page names a run whose file is shown, never a file', async () => {
    const reveal = (content: unknown) => app.ask({ ...ours, content: { verb: 'revealLog', content } })
    const service = { namespace: 'team', name: 'no-such-service' }
    expect([await reveal({ file: '/etc/passwd' }), await reveal({ service, run: 'current' })]).toEqual([
      { ok: false, failure: { code: 'misunderstood', message: expect.any(String) as unknown } },
      { ok: false, failure: { code: 'refused', message: 'That run has no log file.' } },
    ])
    expect(await app.ask({ do: 'opened' })).toEqual([])
  })

  test('there is no channel beside them', async () => {
    await expect(app.ask({ ...ours, channel: '__ELECTRON_LOG__' })).rejects.toThrow('No handler registered')
  })
})

describe('of the app’s own scheme', () => {
  const get = (url: string, method = 'GET') => app.ask({ do: 'request', url, method })

  test('the window comes with a policy whose nonce is new each time', async () => {
    const pages = [await get('app://metalbar/index.html'), await get('app://metalbar/index.html')].map((page) =>
      JSON.stringify(page),
    )
    const nonces = pages.map((page) => /'nonce-([^']+)'/.exec(page)?.[1])
    expect({
      different: nonces[0] !== nonces[1],
      inPage: pages.every((page, index) => page.includes(`nonce=\\"${nonces[index] ?? '-'}\\"`)),
      policy: /"content-security-policy":"([^"]+)"/.exec(pages[0] ?? '')?.[1]?.replace(nonces[0] ?? '', '…'),
    }).toEqual({
      different: true,
      inPage: true,
      policy:
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-…'; img-src 'self' data:; font-src 'self'; connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    })
  })

  test.for([
    ['GET', 'app://metalbar/../main/main.js'],
    ['GET', 'app://metalbar/%2e%2e/main/main.js'],
    ['GET', 'app://metalbar/..%2fmain%2fmain.js'],
    ['GET', 'app://metalbar//etc/passwd'],
    ['GET', 'app://metalbar/%'],
    ['GET', 'app://metalbar/'],
    ['GET', 'app://elsewhere/index.html'],
  ])('%s %s is not there', async ([method = '', url = '']) => {
    expect(await get(url, method)).toMatchObject({ status: 404, body: '' })
  })

  test('nothing but GET is answered', async () => {
    expect(await get('app://metalbar/index.html', 'POST')).toMatchObject({ status: 405, body: '' })
  })
})

test('a page is given nothing of the system but the clipboard to write to, and only ours', async () => {
  const ask = (origin: string, permission: string) => app.ask({ do: 'permissions', origin, permission })
  const none = { asked: false, checked: false }
  expect([
    await ask('app://metalbar', 'clipboard-sanitized-write'),
    await ask('app://metalbar', 'clipboard-read'),
    await ask('app://metalbar', 'media'),
    await ask('https://example.com', 'clipboard-sanitized-write'),
  ]).toEqual([{ asked: true, checked: true }, none, none, none])
})
