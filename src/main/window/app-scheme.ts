import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { app, Menu, type MenuItemConstructorOptions, protocol, session } from 'electron'
import { mediaTypes, noncePlaceholder } from '../../serve/http/window-server.ts'

const scheme = 'app'
export const appOrigin = `${scheme}://metalbar`
export const appUrl = `${appOrigin}/index.html`

/** Before the app is ready. A scheme of our own, since a page from `file:` could read every file. */
export function registerAppScheme(): void {
  protocol.registerSchemesAsPrivileged([
    { scheme, privileges: { standard: true, secure: true, supportFetchAPI: true } },
  ])
}

/** Serves the built window from `folder`, to the window alone: no other program can use this scheme. */
export function serveAppScheme(folder: string): void {
  protocol.handle(scheme, (request) => answer(folder, request))
}

async function answer(folder: string, { method, url }: Request): Promise<Response> {
  if (method !== 'GET') return refuse(405)
  const { host, pathname } = new URL(url)
  const file = path.resolve(folder, `.${decoded(pathname)}`)
  const type = mediaTypes[path.extname(file)]
  if (`${scheme}://${host}` !== appOrigin || type === undefined || !file.startsWith(`${folder}${path.sep}`)) {
    return refuse(404)
  }
  const content = await readFile(file).catch(() => undefined)
  if (content === undefined) return refuse(404)
  const nonce = randomBytes(16).toString('base64')
  const isPage = type.startsWith('text/html')
  return new Response(isPage ? content.toString().replaceAll(noncePlaceholder, nonce) : new Uint8Array(content), {
    headers: {
      'content-type': type,
      'content-security-policy': contentSecurityPolicy(nonce),
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    },
  })
}

/** Only what came with the app; styles that the component library adds carry the nonce of this one answer. */
const contentSecurityPolicy = (nonce: string) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')

/** What cannot be decoded is the name of no file. */
function decoded(pathname: string): string {
  try {
    return decodeURIComponent(pathname)
  } catch {
    return '/'
  }
}

const refuse = (status: number) => new Response(null, { status })

/** Electron has no menu of its own in a text field. */
const editing: MenuItemConstructorOptions[] = [
  { role: 'cut' },
  { role: 'copy' },
  { role: 'paste' },
  { role: 'selectAll' },
]

/** Pages stay where they are, loaded again at most, and get nothing of the system but the clipboard to write to, for addresses that are copied. */
export function securePages(): void {
  app.on('web-contents-created', (_event, page) => {
    page.on('will-navigate', (event) => {
      if (event.url.split('#')[0] !== appUrl) event.preventDefault()
    })
    page.on('will-redirect', (event) => event.preventDefault())
    page.on('will-attach-webview', (event) => event.preventDefault())
    page.setWindowOpenHandler(() => ({ action: 'deny' }))
    page.on('context-menu', (_menu, { isEditable, selectionText }) => {
      if (isEditable) Menu.buildFromTemplate(editing).popup()
      else if (selectionText !== '') Menu.buildFromTemplate([{ role: 'copy' }]).popup()
    })
  })
  const { defaultSession } = session
  defaultSession.setPermissionRequestHandler((_page, permission, allow, { requestingUrl }) =>
    allow(permission === 'clipboard-sanitized-write' && requestingUrl.startsWith(`${appOrigin}/`)),
  )
  defaultSession.setPermissionCheckHandler(
    (_page, permission, origin) =>
      permission === 'clipboard-sanitized-write' && origin.replace(/\/$/, '') === appOrigin,
  )
}
