import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { embeddedBytes, embeddedFilesIn, isEmbedded } from '../../agent-core/util/embedded.ts'
import { hasCode } from '../../agent-core/util/files.ts'
import { contentSecurityPolicy } from './headers.ts'

interface PageFile {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** The built window: answers to the path of a URL; undefined where there is no such file. */
export type PageFiles = (urlPath: string) => Promise<PageFile | undefined>

/** Of what the built window is made of, by the ending of a file's name. */
export const mediaTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
}

/** In the page's `<meta property="csp-nonce">`, from where the component library takes it for the styles it adds. */
export const noncePlaceholder = '__CSP_NONCE__'

/**
 * The files in the folder as of now and nothing else, whatever a path may say; it may be `embedded:` in a self-contained command.
 * Undefined where the window was not built.
 */
export async function openPageFiles(folder: string): Promise<PageFiles | undefined> {
  const inside = isEmbedded(folder) ? embeddedFilesIn(folder) : await filesIn(folder)
  const files = new Map(inside.filter(isPageFile).map((file) => [`/${file}`, `${folder}/${file}`]))
  const index = files.get('/index.html')
  if (index === undefined) return undefined
  files.set('/', index)
  return async (urlPath) => {
    const file = files.get(urlPath)
    return file === undefined ? undefined : await read(file)
  }
}

async function filesIn(folder: string): Promise<string[]> {
  try {
    return await below(folder, '')
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return []
    throw error
  }
}

/** One folder after the other: Electron lists no archive recursively in a way that its documentation promises. */
async function below(folder: string, prefix: string): Promise<string[]> {
  const files: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const name = `${prefix}${entry.name}`
    if (entry.isDirectory()) files.push(...(await below(path.join(folder, entry.name), `${name}/`)))
    else if (entry.isFile()) files.push(name)
  }
  return files
}

const isPageFile = (file: string): boolean => Object.hasOwn(mediaTypes, path.extname(file))

async function read(file: string): Promise<PageFile> {
  const body = isEmbedded(file) ? embeddedBytes(file) : await readFile(file)
  const type = mediaTypes[path.extname(file)] ?? 'application/octet-stream'
  if (path.extname(file) !== '.html') {
    return {
      headers: {
        'content-type': type,
        'content-security-policy': contentSecurityPolicy(),
        'cache-control': hasHashInName(file) ? 'public, max-age=31536000, immutable' : 'no-cache',
      },
      body,
    }
  }
  const nonce = randomBytes(16).toString('base64')
  return {
    headers: {
      'content-type': type,
      'content-security-policy': contentSecurityPolicy(nonce),
      'cache-control': 'no-store',
    },
    body: Buffer.from(body.toString('utf8').replaceAll(noncePlaceholder, nonce)),
  }
}

/** As the build names what a page loads, so that another content has another name. */
const hasHashInName = (file: string) => /-[\w-]{8}\.\w+$/.test(path.basename(file))
