import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { protocol } from 'electron'
import { mediaTypes, noncePlaceholder } from '../serve/http/window-server.ts'

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
