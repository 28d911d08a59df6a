import type { Plugin } from 'vite'

/**
 * V8 keeps a source with a single character beyond Latin-1 in two bytes for each of its characters: written as escapes,
 * the sources of the agent take half of the memory.
 */
export function asciiSource(): Plugin {
  return {
    name: 'ascii-source',
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) if (file.type === 'chunk') file.code = escaped(file.code)
    },
  }
}

const escaped = (code: string): string =>
  code.replaceAll(/[^\0-\x7F]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
