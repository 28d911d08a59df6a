import fs from 'node:fs'
import { isBuiltin, registerHooks, syncBuiltinESMExports } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { extractFile, statFile } from '@electron/asar'

/**
 * What Electron does so that files in app.asar are read as others are, as far as the app and the stand-in need it: modules, and these
 * functions of fs. In the main thread alone: what a worker's thread could do besides is not promised.
 */
export function readArchives(archive: string): void {
  readModules(pathToFileURL(`${archive}${path.sep}`).href)
  const inside = (file: unknown): string | undefined => {
    const name = file instanceof URL ? fileURLToPath(file) : file
    const isInside = typeof name === 'string' && name.startsWith(`${archive}${path.sep}`)
    return isInside ? path.relative(archive, name) : undefined
  }
  const { existsSync } = fs
  const readFileSync = fs.readFileSync as (file: fs.PathLike, options: unknown) => unknown
  const { readFile } = fs.promises
  const contentOf = (name: string, options: unknown): string | Buffer => {
    const content = contentIn(archive, name)
    const encoding = typeof options === 'string' ? options : (options as { encoding?: string } | undefined)?.encoding
    return encoding == null ? content : content.toString(encoding as BufferEncoding)
  }
  Object.assign(fs, {
    existsSync: (file: fs.PathLike) => {
      const name = inside(file)
      return name === undefined ? existsSync(file) : isIn(archive, name)
    },
    readFileSync: (file: fs.PathLike, options?: unknown) => {
      const name = inside(file)
      return name === undefined ? readFileSync(file, options) : contentOf(name, options)
    },
  })
  Object.assign(fs.promises, {
    readFile: (file: fs.PathLike, options: BufferEncoding | null = null) => {
      const name = inside(file)
      return name === undefined ? readFile(file, options) : Promise.try(contentOf, name, options)
    },
  })
  syncBuiltinESMExports()
}

function readModules(prefix: string): void {
  registerHooks({
    resolve: (specifier, context, next) => {
      if (isBuiltin(specifier) || specifier === 'electron') return next(specifier, context)
      const url = URL.canParse(specifier, context.parentURL) ? new URL(specifier, context.parentURL).href : ''
      return url.startsWith(prefix) ? { url, format: formatOf(url), shortCircuit: true } : next(specifier, context)
    },
    load: (url, context, next) => {
      if (!url.startsWith(prefix)) return next(url, context)
      const archive = fileURLToPath(prefix).slice(0, -1)
      const source = contentIn(archive, path.relative(archive, fileURLToPath(url)))
      return { format: formatOf(url), source, shortCircuit: true }
    },
  })
}

const formatOf = (url: string) => (url.endsWith('.cjs') ? 'commonjs' : 'module')

function contentIn(archive: string, name: string): Buffer {
  if (!isIn(archive, name)) throw Object.assign(new Error(`ENOENT: ${name} is not in ${archive}`), { code: 'ENOENT' })
  return extractFile(archive, name)
}

function isIn(archive: string, name: string): boolean {
  try {
    statFile(archive, name)
    return true
  } catch {
    return false
  }
}
