import { registerHooks } from 'node:module'

/** `node --import register.ts run-app.ts …`: every import or require of Electron gets the stand-in. */
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'electron'
      ? { url: new URL('start.ts', import.meta.url).href, shortCircuit: true }
      : next(specifier, context),
})
