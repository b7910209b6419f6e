// Reads an array of texts from stdin and writes the result of Netlify's parsers for each as a file:
// node netlify.mjs MODULES redirects|headers
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const [modules, kind] = process.argv.slice(2)
const { parseAllRedirects } = await import(join(modules, '@netlify/redirect-parser/lib/index.js'))
const { parseAllHeaders } = await import(join(modules, '@netlify/headers-parser/lib/index.js'))
const parse = {
  redirects: (file) => parseAllRedirects({ redirectsFiles: [file], minimal: false }),
  headers: (file) => parseAllHeaders({ headersFiles: [file], minimal: false }),
}[kind]

const { texts, paths } = JSON.parse(readFileSync(0, 'utf8'))
const folder = mkdtempSync(join(tmpdir(), 'pinion-netlify-'))
const file = join(folder, 'rules')
const results = []
for (const text of texts) {
  writeFileSync(file, text)
  const { redirects, headers, errors } = await parse(file)
  const rules = (redirects ?? headers).map(({ forRegExp, ...rule }) => ({
    ...rule,
    matches: forRegExp ? paths.filter((path) => forRegExp.test(path)) : [],
  }))
  results.push({ rules, errors: errors.map((error) => error.message) })
}
rmSync(folder, { recursive: true })
process.stdout.write(JSON.stringify(results))
