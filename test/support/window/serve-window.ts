import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, relative } from 'node:path'

const nonce = 'bm9uY2U'

/** What the app's own carrier answers with; nothing may be loaded from elsewhere, nothing inline may run. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  `style-src 'self' 'nonce-${nonce}'`,
  "img-src 'self' data:",
  "connect-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Shows nothing: where a tab is between two windows. */
export const emptyPage = '/empty.html'

/** The built window on loopback, from where a page may use the clipboard. Browsers keep its scripts, compiled. */
export async function serveWindow(folder: string): Promise<AsyncDisposable & { readonly origin: string }> {
  const files = await filesIn(folder)
  const server = createServer(({ url = '/' }, response) => {
    const path = url === '/' ? '/index.html' : url
    const body = files.get(path)
    if (body === undefined) {
      response.writeHead(404).end()
      return
    }
    response
      .writeHead(200, {
        'content-type': contentTypes[extname(path)] ?? '',
        'content-security-policy': policy,
        // The name of an asset says what is in it.
        'cache-control': path.startsWith('/assets/') ? 'max-age=31536000, immutable' : 'no-store',
      })
      .end(body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

/** By the path of their URL. */
async function filesIn(folder: string): Promise<ReadonlyMap<string, string>> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = found.filter((one) => one.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const read = async (file: string) =>
    [`/${relative(folder, file)}`, (await readFile(file, 'utf8')).replaceAll('__CSP_NONCE__', nonce)] as const
  return new Map([[emptyPage, ''], ...(await Promise.all(files.map(read)))])
}
