/** The classes of a stylesheet, by the name the file gives them. */
declare module '*.module.css' {
  const classes: Readonly<Record<string, string>>
  export default classes
}

declare module '*.css'

/** The text of a file. */
declare module '*?raw' {
  const text: string
  export default text
}
