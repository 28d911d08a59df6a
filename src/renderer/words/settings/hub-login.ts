import type { HubLoginView } from '../../../contract/models.ts'

const sources: Readonly<Record<HubLoginView['tokenSource'], (where: string) => string>> = {
  none: () => 'none, so only open models can be downloaded',
  environment: (where) => `from the variable ${where} that the agent was started with`,
  file: (where) => `from the file ${where}`,
  keychain: () => 'kept by the app, encrypted with a key of the keychain',
}

/** The token that the Hub is asked with; it is never shown. */
export const hubLoginWords = {
  title: 'Hugging Face token',
  source: ({ tokenSource, where = '' }: HubLoginView): string => sources[tokenSource](where),
  inTerminal:
    'A page in a browser never takes a token. In a terminal on this machine, this asks for one and keeps it in a file:',
  command: 'hf auth login',
  copyCommand: 'Copy command for the token',
} as const
