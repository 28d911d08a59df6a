import { safeStorage } from 'electron'
import type { Cipher } from './kept-token.ts'

/** The key is in the system's keychain, and only this app gets it; on Linux without one Electron would only obfuscate. */
export const keychain = (platform: NodeJS.Platform): Cipher => ({
  isPossible: () => platform !== 'linux' || safeStorage.getSelectedStorageBackend() !== 'basic_text',
  // Of what may ask a person for a password, only what answers later: it must not hold up the agent.
  isThere: () => safeStorage.isAsyncEncryptionAvailable(),
  encrypt: (text) => safeStorage.encryptStringAsync(text),
  decrypt: async (content) => {
    const { result, shouldReEncrypt } = await safeStorage.decryptStringAsync(content)
    return { text: result, isOutdated: shouldReEncrypt }
  },
})
