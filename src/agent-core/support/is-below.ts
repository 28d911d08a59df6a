import { isAbsolute, relative, sep } from 'node:path'

/** Whether a path lies below a folder; the folder itself does not. By the names alone: links are not followed. */
export function isBelow(path: string, folder: string): boolean {
  const way = relative(folder, path)
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}
