/** Addresses what a self-contained command carries in its own file (`tasks/package/command.ts`): `embedded:` and a path. */
export const embeddedScheme = 'embedded:'

export const isEmbedded = (address: string): boolean => address.startsWith(embeddedScheme)

/** Whether this process is the self-contained command. */
export const isSelfContained = (): boolean => executable()?.isSea() ?? false

/** Throws where this process is not self-contained, or carries no such file. */
export const embeddedText = (address: string): string => carried().getAsset(pathIn(address), 'utf8')

export const embeddedBytes = (address: string): Buffer => Buffer.from(carried().getRawAsset(pathIn(address)))

/** Addresses of all files below a folder, with slashes. */
export function embeddedFilesIn(folder: string): string[] {
  const prefix = `${pathIn(folder)}/`
  const inside = carried()
    .getAssetKeys()
    .filter((key) => key.startsWith(prefix))
  return inside.map((key) => key.slice(prefix.length))
}

const pathIn = (address: string): string => address.slice(embeddedScheme.length)

// Not imported, and perhaps not there: Electron's Node.js may have no such module, which its type does not say.
const executable = (): typeof import('node:sea') | undefined => process.getBuiltinModule('node:sea')

function carried(): typeof import('node:sea') {
  const module = executable()
  if (module?.isSea() !== true) throw new Error('This process is not the self-contained command.')
  return module
}
