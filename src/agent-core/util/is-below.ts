import { isAbsolute, join, relative, sep } from 'node:path'

/** Whether a path lies below a folder; the folder itself does not. By the names alone: links are not followed. */
export function isBelow(path: string, folder: string): boolean {
  const way = relative(folder, path)
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}

/**
 * The path of `name`, or of `some/name`, in a folder. Every path that is built from a name of others (an object, a file of a repository, a
 * record) is built here: throws where the name would lead out of the folder, or to another place in it.
 */
export function pathBelow(folder: string, name: string): string {
  const isPlain = name.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0'))
  if (!isPlain) throw new Error(`${JSON.stringify(name.slice(0, 200))} names nothing in ${folder}`)
  return join(folder, name)
}
